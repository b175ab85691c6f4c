"""Copies that the host does not wait for."""

import pytest
import torch
from changed_cases import case_of

from gpuscope.advice.registry import find


def _build(pinned: bool = True, non_blocking: bool = False):
    def build():
        linear = torch.nn.Linear(1024, 1024).cuda()
        x = torch.randn(8192, 1024)
        x = x.pin_memory() if pinned else x

        def step():
            y = linear(x.to("cuda", non_blocking=non_blocking))
            for _ in range(20):
                y = y * 2
            return y

        return step

    return build


def _waits(case) -> list[str]:
    return [op.sync for op in case.program.ops if op.phase == "input"]


def test_the_host_goes_on_from_locked_memory_only() -> None:
    plain, changed = case_of(_build()), case_of(_build(), "async-copies")
    assert (_waits(plain), _waits(changed)) == (["blocking_copy"], [""])
    assert changed.run.step_time_s < plain.run.step_time_s
    pageable = case_of(_build(pinned=False), "async-copies")
    assert _waits(pageable) == ["blocking_copy"]
    assert _waits(case_of(_build(pinned=False), "async-copies", "pin-memory")) == [""]


def test_it_is_what_the_code_would_say_itself() -> None:
    changed, by_hand = case_of(_build(), "async-copies"), case_of(_build(non_blocking=True))
    said = [op.args for op in changed.program.ops], [op.args for op in by_hand.program.ops]
    assert said[0] == said[1]
    # To the nanosecond that moments on a timeline are rounded to.
    assert changed.run.device_busy_s == pytest.approx(by_hand.run.device_busy_s, abs=2e-9)


def test_where_it_fits() -> None:
    change = find("async-copies")
    assert "waits while 32.0 MiB" in change.fits(case_of(_build())).why
    assert "pin-memory" in change.fits(case_of(_build(pinned=False))).why
    assert "no copy" in change.fits(case_of(_build(non_blocking=True))).why
