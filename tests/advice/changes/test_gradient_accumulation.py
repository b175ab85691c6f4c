"""Two halves and one update: the same gradients and the same new weights."""

import pytest
import torch
from changed_cases import case_of
from torch import nn

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan

DATA = torch.randn(16, 8, generator=torch.Generator().manual_seed(3))


def _build(clip: bool, schedule: bool):
    made = {}

    def build(batch: int = 16):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        steps = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if schedule else None
        made["model"], made["optimizer"] = model, optimizer
        parts = [DATA[at : at + batch] for at in range(0, 16, batch)]
        calls = iter(range(1000))

        def step():
            optimizer.zero_grad()
            loss = model(parts[next(calls) % len(parts)]).square().mean()
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
            if steps is not None:
                steps.step()
            return loss.detach()

        return step

    return build, made


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("schedule", [False, True])
def test_the_same_training(clip: bool, schedule: bool) -> None:
    weights = []
    for names in ((), ("gradient-accumulation",)):
        build, made = _build(clip, schedule)
        live = Live(plan(names))
        step = live.wrap(build)()
        for _ in range(3):
            step()
        live.close()
        weights.append(torch.cat([p.detach().flatten() for p in made["model"].parameters()]))
        rate = made["optimizer"].param_groups[0]["lr"]
        assert rate == pytest.approx(0.1 * (0.125 if schedule else 1))
        state = made["optimizer"].state_dict()["state"]
        assert {int(s["step"]) for s in state.values()} == {3}
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def _on_device(norm: bool = False):
    def build(batch: int = 4096):
        layers = [m for _ in range(4) for m in (nn.Linear(512, 512), nn.GELU())]
        model = nn.Sequential(*layers, *([nn.BatchNorm1d(512)] if norm else [])).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(batch, 512, device="cuda")

        def step():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return step

    return build


def test_half_the_memory_of_a_batch_and_one_update() -> None:
    plain, changed = case_of(_on_device()), case_of(_on_device(), "gradient-accumulation")
    at_peak = plain.analysis.memory.at_peak
    grows = sum(at_peak[each] for each in ("activation", "temporary", "input"))
    # Half of what grows with the batch goes; the first half's gradients stay for the second.
    saved = grows / 2 - at_peak["parameter"]
    less = plain.run.peak_memory_bytes - changed.run.peak_memory_bytes
    assert less == pytest.approx(saved, rel=0.01)
    updates = [sum(op.phase == "optimizer" for op in c.program.ops) for c in (plain, changed)]
    assert updates[0] == updates[1]
    products = [sum(op.name == "aten::addmm" for op in c.program.ops) for c in (plain, changed)]
    assert products == [4, 8]
    assert changed.run.step_time_s > plain.run.step_time_s


def test_where_it_fits() -> None:
    change = find("gradient-accumulation")
    assert "half of the activations" in change.fits(case_of(_on_device())).why
    assert "Batch norm" in change.fits(case_of(_on_device(norm=True))).why
    odd = case_of(lambda batch=3: _on_device()(batch=batch))
    assert "cannot be halved" in change.fits(odd).why
    assert not change.fits(case_of(lambda: _on_device()())).applies
