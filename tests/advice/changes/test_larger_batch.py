"""A larger batch: more samples a step, for what they cost."""

from dataclasses import replace

import pytest
import torch
from changed_cases import case_of

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan
from gpuscope.errors import InvalidValueError, UnsupportedError


def build(batch: int = 32):
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()).cuda()
    x = torch.randn(batch, 1024, device="cuda")

    def step():
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return step


@pytest.mark.parametrize(("name", "factor"), [("larger-batch", 2), ("larger-batch-4x", 4)])
def test_the_same_as_written_by_hand(name: str, factor: int) -> None:
    plain = case_of(build)
    changed, by_hand = case_of(build, name), case_of(lambda: build(32 * factor))
    assert changed.run.step_time_s == by_hand.run.step_time_s
    assert changed.run.peak_memory_bytes == by_hand.run.peak_memory_bytes
    assert find(name).work_factor(plain) == factor
    # A step of launches costs hardly more: the rate is nearly so many times as high.
    assert plain.run.step_time_s / changed.run.step_time_s * factor > 0.8 * factor


def test_where_it_fits() -> None:
    change = find("larger-batch")
    case = case_of(build)
    assert case.seen.batch == 32
    assert "A batch of 64 instead of 32" in change.fits(case).why
    memory = replace(case.analysis.memory, at_peak={"activation": 100 << 30, "parameter": 1 << 30})
    analysis = replace(case.analysis, memory=memory)
    full = replace(case, run=replace(case.run, analysis=analysis, peak_memory_bytes=101 << 30))
    assert not change.fits(full).applies
    assert "201 GiB" in change.fits(full).why
    assert not change.fits(case_of(lambda: build())).applies


def test_a_build_without_a_batch_says_what_to_write() -> None:
    live = Live(plan(["larger-batch"]))
    with pytest.raises(UnsupportedError, match="def build"):
        live.wrap(lambda: build())()
    with pytest.raises(InvalidValueError):
        plan(["larger-batch", "larger-batch-4x"])
