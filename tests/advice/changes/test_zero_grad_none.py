"""Gradients dropped instead of zeroed."""

import torch
from changed_cases import case_of

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find

WEIGHT = 2048 * 2048 * 4


def _build(set_to_none: bool = False, of_model: bool = False):
    def build():
        model = torch.nn.Linear(2048, 2048, bias=False).cuda()
        x = torch.randn(8192, 2048, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def step():
            (model if of_model else optimizer).zero_grad(set_to_none=set_to_none)
            model(x).relu().square().sum().backward()
            optimizer.step()

        return step

    return build


def test_as_the_code_would_say_itself() -> None:
    for of_model in (False, True):
        plain = case_of(_build(of_model=of_model))
        changed = case_of(_build(of_model=of_model), "zero-grad-none")
        by_hand = case_of(_build(True, of_model))
        assert [op.name for op in changed.program.ops] == [op.name for op in by_hand.program.ops]
        assert changed.run.peak_memory_bytes == by_hand.run.peak_memory_bytes
        assert plain.run.peak_memory_bytes - changed.run.peak_memory_bytes == WEIGHT
        assert changed.run.device_busy_s < plain.run.device_busy_s


def test_where_it_fits() -> None:
    change = find("zero-grad-none")
    assert "16.0 MiB" in change.fits(case_of(_build())).why
    assert not change.fits(case_of(_build(True))).applies


def test_gradients_are_really_dropped() -> None:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(3)).sum().backward()
    with Live([find("zero-grad-none")]):
        optimizer.zero_grad(set_to_none=False)
        assert model.weight.grad is None
    model(torch.ones(3)).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert model.weight.grad is not None
