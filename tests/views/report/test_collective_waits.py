"""Waits inside collectives: known answers by hand, and the sums that the analysis tells."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import gpuscope as gs
from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Timeline
from gpuscope.views.report.collective_waits import collective_waits

TRACES = Path(__file__).parents[2] / "data" / "traces" / "4xh200"


def meeting(*calls: tuple[int, int, int]) -> Timeline:
    """Kernels of all-reduces: begin and end in microseconds, rank; a lane each rank."""
    ranks = sorted({rank for _, _, rank in calls})
    lanes = tuple(Lane("stream 20", "stream", rank, rank) for rank in ranks)
    kind = EVENT_KINDS.index("communication")
    columns = [
        (start * 1000, (end - start) * 1000, 0, kind, ranks.index(rank), -1, -1, -1)
        for start, end, rank in sorted(calls)
    ]
    return Timeline(
        names=("ncclDevKernel_AllReduce_Sum_f32_RING_LL",),
        lanes=lanes,
        events=Events(*np.array(columns, np.int64).T.copy()),
        origin="measured",
    )


def test_a_call_waits_from_its_begin_for_the_rank_that_comes_last() -> None:
    # Rank 1 comes 30 us later; both leave at 50: its 20 us are the transfer.
    found = collective_waits(meeting((0, 50, 0), (30, 50, 1)))
    assert found is not None
    assert (found.start_ns, found.wait_ns) == ((0,), (30_000,))
    assert (found.lane, found.last) == ((0,), (1,))


def test_of_too_many_the_longest_stay() -> None:
    timeline = meeting((0, 50, 0), (30, 50, 1), (100, 190, 0), (150, 190, 1))
    found = collective_waits(timeline, most=1)
    assert found is not None
    assert found.wait_ns == (50_000,)


def test_one_rank_tells_nothing() -> None:
    assert collective_waits(meeting((0, 50, 0))) is None


@pytest.mark.parametrize("name", ["ddp_imbalance", "fsdp", "tensor_parallel_host_bound"])
def test_waits_add_up_to_what_the_analysis_tells(name: str) -> None:
    run = gs.load(TRACES / name)
    found, story = collective_waits(run.timeline), run.analysis.ranks
    assert found is not None
    assert story is not None
    by_rank: dict[int, int] = defaultdict(int)
    for lane, wait_ns in zip(found.lane, found.wait_ns, strict=True):
        by_rank[run.timeline.lanes[lane].rank] += wait_ns
    for share in story.ranks:
        assert by_rank[share.rank] * 1e-9 == pytest.approx(share.waiting_s)
