"""Steps of many micro-batches from two short ones: time and memory against the whole step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import asked

from gpuscope.planning.simulate import Simulator, grown_rank
from gpuscope.planning.space import candidates
from gpuscope.timeline.recost_ranks import RecostedJob, RecostedRank


def test_memory_grows_with_what_is_received() -> None:
    short = RecostedRank(0, 2, None, 100, True, 0.0, (("activation", 60), ("communication", 40)))
    long = RecostedRank(0, 2, None, 120, True, 0.0, (("communication", 62), ("activation", 58)))
    grown = grown_rank(short, long, 3.0)
    assert grown.peak_memory_bytes == 160
    assert grown.at_peak == (("communication", 106), ("activation", 54))
    assert grown_rank(replace(short, peak_memory_bytes=None), long, 3.0) is long


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
