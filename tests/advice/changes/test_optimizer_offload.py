"""Optimizer states on the host: their bytes leave the peak and cross the link twice."""

import torch
from changed_cases import case_of

from gpuscope.advice.registry import find


def _build(optimizer: str = "AdamW"):
    def build():
        model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
        x = torch.randn(8192, 1024, device="cuda")
        chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)

        def step():
            chosen.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            chosen.step()
            return loss

        return step

    return build


STATES = 2 * 8 * 1024 * 1024 * 4  # both moments of eight weights; biases stay


def test_peak_and_time() -> None:
    plain, changed = case_of(_build()), case_of(_build(), "optimizer-offload")
    assert plain.run.peak_memory_bytes - changed.run.peak_memory_bytes == STATES
    link_s = 2 * STATES / plain.device.host_link_bandwidth_bytes_per_s
    longer = changed.run.step_time_s - plain.run.step_time_s
    assert 0.9 * link_s < longer < 1.5 * link_s
    moved = [op for op in changed.program.ops if op.name == "aten::_to_copy"]
    assert len(moved) == 2 * 16
    assert not any(op.sync for op in moved)


def test_the_same_update() -> None:
    plain, changed = case_of(_build()), case_of(_build(), "optimizer-offload")
    updates = [
        [op.name for op in case.program.ops if op.phase == "optimizer" and "foreach" in op.name]
        for case in (plain, changed)
    ]
    assert updates[0] == updates[1]


def test_where_it_fits() -> None:
    change = find("optimizer-offload")
    case = case_of(_build())
    assert "optimizer states hold 64.1 MiB" in change.fits(case).why
    assert "twice" in change.price(case)
    assert not change.fits(case_of(_build("SGD"))).applies
