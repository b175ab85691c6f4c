"""Steps of many micro-batches from two short ones: time and memory against the whole step."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import pytest
from made import asked

from gpuscope.capturing import capture_pipeline
from gpuscope.planning.simulate import Simulator, grown_rank, most_to_fit, probability_to_fit
from gpuscope.planning.space import candidates
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.pipeline import job_programs
from gpuscope.timeline.recost_ranks import RecostedJob, RecostedRank


def test_memory_grows_with_what_is_received() -> None:
    short = RecostedRank(0, 2, None, 100, True, 0.0, (("activation", 60), ("communication", 40)))
    long = RecostedRank(0, 2, None, 120, True, 0.0, (("communication", 62), ("activation", 58)))
    grown = grown_rank(short, long, 3.0)
    assert grown.peak_memory_bytes == 160
    assert grown.at_peak == (("communication", 106), ("activation", 54))
    assert grown_rank(replace(short, peak_memory_bytes=None), long, 3.0) is long


def test_the_most_that_fits_is_as_likely_as_asked_for() -> None:
    for certainty in (0.5, 0.9, 0.95):
        assert probability_to_fit(most_to_fit(80e9, certainty), 80e9) == pytest.approx(certainty)


@pytest.mark.slow
def test_of_a_pipeline_that_does_not_fit_only_memory_is_simulated() -> None:
    question = asked(model="gpt2", devices="2", seq=512, global_batch=16)
    each = next(c for c in candidates(question)[0] if c.words == "pp 2, microbatch 1")
    whole = Simulator(question, fitting=True).judge(each, 0.0)
    device = replace(each.cluster.device, memory_usable_bytes=whole.peak_bytes)
    full = replace(each, cluster=each.cluster.with_device(device))
    found = Simulator(question, fitting=True).judge(full, 0.0)
    assert isnan(found.step_s)
    timed = Simulator(question).judge(full, 0.0)
    assert (found.peak_bytes, found.held) == (timed.peak_bytes, timed.held)
    assert found.fits < question.certainty
    assert timed.step_s == whole.step_s


@pytest.mark.slow
def test_a_long_pipeline_is_folded_in_its_short_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the longer of the two was, their difference was that of two ways to simulate."""
    question = asked(model="gpt2", devices="2", seq=512, global_batch=32)
    each = next(c for c in candidates(question)[0] if c.words == "pp 2, microbatch 1")
    simulator = Simulator(question)
    options = WorkloadOptions(task="train", seq=512, parallel=each.asked)
    whole = capture_pipeline("gpt2", each.cluster, options)
    # The whole is beyond it, and none of the two short ones.
    monkeypatch.setattr(job_programs, "LONG", whole.operators // 4)
    found = simulator.judge(each, 0.0)
    exact = simulator._short(each, 32, memory=True)
    assert found.step_s == pytest.approx(exact.step_time_s, rel=0.002)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["dp 2, pp 2, fsdp zero1, microbatch 1", "dp 4, fsdp zero1, microbatch 1"]
)
def test_the_whole_step(words: str) -> None:
    """A pipeline's fullest rank holds a buffer for each micro-batch; sums come once a step."""
    question = asked(model="gpt2", devices="4", seq=512, global_batch=32)
    each = next(c for c in candidates(question)[0] if c.words == words)
    simulator = Simulator(question)
    found = simulator.judge(each, 0.0)
    whole = simulator._short(each, each.plan.microbatches, memory=True)
    assert found.step_s == pytest.approx(whole.step_time_s, rel=0.02)
    fullest = whole.fullest if isinstance(whole, RecostedJob) else whole
    assert fullest is not None
    assert found.peak_bytes == pytest.approx(fullest.peak_memory_bytes, rel=0.002)
