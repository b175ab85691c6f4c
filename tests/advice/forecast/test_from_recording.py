"""Advice from recordings: bounds, and their page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_changes import Tiny, known

import gpuscope as gs
from gpuscope.advice.forecast.from_recording import advise_run
from gpuscope.advice.forecast.recording_explanation import recorded_advice
from gpuscope.errors import InvalidValueError, UnknownNameError

TRACE = Path(__file__).parents[2] / "data" / "traces" / "h200" / "pageable_copies"


class _Saves(Tiny):
    def __init__(self, name, share):
        super().__init__(name)
        self.share = share

    def saving_s(self, run, case):
        return tuple(share * run.step_time_s for share in self.share)


@pytest.fixture(scope="module")
def run():
    return gs.load(str(TRACE))


def test_bounds_are_of_the_step(run):
    with known(_Saves("half", (0.5, 0.75)), _Saves("maybe", (0.0, 0.2)), Tiny("blind")):
        advice = advise_run(run)
    first, second = advice.singles
    assert (first.names, first.effect) == (("half",), "helps")
    assert (first.low, first.high) == pytest.approx((2.0, 4.0))
    assert first.speedup is None
    assert (second.effect, second.low) == ("little", 1.0)
    assert second.high == pytest.approx(1.25)
    assert [r.name for r in advice.refused] == ["blind"]
    assert advice.path == ()


def test_pageable_copies_are_found_in_a_real_trace(run):
    advice = advise_run(run)
    assert advice.singles[0].names == ("pin-memory",)
    told = recorded_advice(advice)
    assert "pin-memory" in told.summary[0]
    assert told.sections[0].blocks[0].marked == (0,)
    assert len(told.sections[1].blocks[0].rows) == sum(bool(f.hint) for f in run.analysis.findings)


def test_wrong_input(run):
    with pytest.raises(InvalidValueError, match="what it ran on"):
        advise_run(replace(run, device_id=""))
    with pytest.raises(InvalidValueError, match="no step time"):
        advise_run(replace(run, step_time_s=float("nan")))
    with pytest.raises(UnknownNameError):
        advise_run(run, only=("no-such-change",))


def test_no_time_is_promised_by_two_changes_without_a_word(run):
    """Page-locking makes a copy as fast as the link; only copying ahead takes it away."""
    found = {f.names[0]: f for f in advise_run(run).singles}
    locked, ahead = found["pin-memory"], found["prefetch-batches"]
    (copy,) = (c for c in run.analysis.copies if c.memory == "pageable")
    least_s = copy.total_bytes / copy.link_bytes_per_s
    assert locked.high == pytest.approx(run.step_time_s / (run.step_time_s - copy.time_s + least_s))
    assert 1 < locked.low < locked.high < ahead.high
    assert "same time as that of pin-memory" in ahead.why
    assert "same time" not in locked.why
