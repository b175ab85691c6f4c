"""What the host of each rank did."""

from __future__ import annotations

import numpy as np
from builders import TimelineBuilder

from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.host_activity import HostActivity, Hosts, host_activity

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def activity(b: TimelineBuilder) -> HostActivity:
    timeline = b.build()
    return host_activity(timeline, 0, OpColumns.of(timeline))


def test_work_is_counted_without_waits() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 30, launch_us=-5)
    b.host(0, 40, name="aten::item")
    b.host(5, 31, kind="sync", name="cudaStreamSynchronize")
    b.host(50, 60, kind="python", name="train.py(1): step")
    found = activity(b)
    # 5 us before the wait, 9 after it, 10 of Python.
    assert found.work_ns(0, 100_000) == 24_000
    assert found.active.within(np.array([0]), np.array([100_000]))[0] == 40_000
    assert len(found.waits) == 1


def test_the_call_of_a_blocking_download_is_a_wait_and_that_of_an_upload_is_work() -> None:
    b = TimelineBuilder(origin="measured")
    b.copy(20, 30, call_us=(0, 32), name="Memcpy DtoH (Device -> Pageable)")
    b.copy(80, 90, call_us=(50, 92), name="Memcpy HtoD (Pageable -> Device)")
    found = activity(b)
    assert len(found.waits) == 2
    assert found.syncing.total_ns == 32_000


def test_input_is_known_by_the_loader_and_in_predictions_by_the_phase() -> None:
    for origin, known in (("measured", False), ("predicted", True)):
        b = TimelineBuilder(origin=origin)
        op = b.op("aten::_to_copy", phase="input")
        b.work(0, 10, launch_us=-5)
        b.host(20, 30, name="aten::_to_copy", op=op)
        assert activity(b).knows_loader is known
    b.host(40, 50, name=LOADER)
    assert activity(b).knows_loader


def test_ranks_share_columns_and_have_their_own_answers() -> None:
    b = TimelineBuilder(origin="measured")
    for rank in (0, 1):
        b.work(0, 20, launch_us=-5, rank=rank)
        b.host(0, 50, name="aten::op", rank=rank)
    b.host(10, 25, kind="sync", name="item", rank=1)
    b.host(60, 70, name=LOADER, rank=1)
    timeline = b.build()
    hosts = Hosts(timeline, OpColumns.of(timeline))
    first, second = hosts(0), hosts(1)
    assert hosts(0) is first
    assert first.threads.parent is second.threads.parent
    assert (first.syncing.total_ns, second.syncing.total_ns) == (0, 15_000)
    assert (first.knows_loader, second.knows_loader) == (False, True)
    sync = int(np.flatnonzero(second.is_sync)[0])
    around = int(second.threads.parent[sync])
    assert timeline.names[timeline.events.name[around]] == "aten::op"
    assert timeline.events.lane[around] == timeline.events.lane[sync]


def test_a_device_without_a_host_is_known_as_such() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 20)
    assert not activity(b).known
    assert activity(b).threads.lanes == ()
