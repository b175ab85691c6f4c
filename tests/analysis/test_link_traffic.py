"""Bytes that collectives send: message times bus factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import TimelineBuilder, kernel

from gpuscope.analysis.link_traffic import link_bytes
from gpuscope.timeline.types import Collective, Recorded, Timeline


def predicted(name: str, note: str) -> Timeline:
    made = TimelineBuilder()
    cost = kernel(10.0, name=name, kind="collective", read_bytes=800.0, lane="link", note=note)
    made.work(0, 10, kind="communication", cost=cost)
    return made.build()


def test_a_predicted_all_reduce_of_eight_sends_seven_quarters_of_its_message() -> None:
    timeline = predicted("collective_all_reduce", "8 ranks in one scale-up domain")
    assert link_bytes(timeline, np.array([0])).tolist() == [1400.0]


def test_a_gather_sends_half_of_that() -> None:
    timeline = predicted("collective_all_gather", "8 ranks in one scale-up domain")
    assert link_bytes(timeline, np.array([0])).tolist() == [700.0]


def test_without_the_number_of_ranks_nothing_is_said() -> None:
    assert np.isnan(link_bytes(predicted("collective_all_reduce", ""), np.array([0]))).all()


@pytest.mark.parametrize(("size", "sent"), [(4, 1.5 * 4000.0), (None, float("nan"))])
def test_a_recorded_call_is_sized_by_what_was_recorded(size: int | None, sent: float) -> None:
    made = TimelineBuilder(origin="measured")
    made.work(0, 10, kind="communication", name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    timeline = made.build()
    none = np.full(1, -1, np.int64)
    recorded = Recorded(
        event=np.array([0]),
        grid=np.full((1, 3), -1),
        block=np.full((1, 3), -1),
        registers=none,
        shared_bytes=none,
        occupancy=np.full(1, np.nan),
        nbytes=none,
        stream=none,
        graph=none,
        launch=none,
        operator=none,
        collective=np.array([0]),
        sequence=none,
    )
    call = Collective("all_reduce", "g", size, dtype="Float", in_elements=1000, out_elements=1000)
    timeline = replace(timeline, recorded=recorded, collectives=(call,))
    found = link_bytes(timeline, np.array([0]))
    assert found.tolist() == pytest.approx([sent], nan_ok=True)
