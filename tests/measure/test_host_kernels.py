from __future__ import annotations

import numpy as np
import pytest
from measure_builders import timeline

from gpuscope.measure.host_kernels import with_host_kernels
from gpuscope.timeline.types import DEVICE_KINDS


def test_innermost_operators_become_kernels() -> None:
    """linear [0, 100) holds t [5, 10) and addmm [20, 90); relu [110, 120) stands alone."""
    host = [("operator", 0, 100), ("operator", 5, 5), ("operator", 20, 70), ("operator", 110, 10)]
    found = with_host_kernels(timeline(host, []))
    events = found.events
    rows = np.flatnonzero(events.kind < DEVICE_KINDS)
    assert list(zip(events.start_ns[rows], events.duration_ns[rows], strict=True)) == [
        (5, 5), (20, 70), (110, 10),
    ]  # fmt: skip
    assert found.lanes[int(events.lane[rows[0]])].name == "cpu"
    assert (np.diff(events.start_ns) >= 0).all()
    assert found.recorded.event.tolist() == rows.tolist()
    # Each points at the operator that it stands for.
    assert events.start_ns[found.recorded.operator].tolist() == [5, 20, 110]
    assert (events.kind[found.recorded.operator] >= DEVICE_KINDS).all()
    assert len(events) == 7


def test_the_host_events_stay_as_they_were() -> None:
    host = [("operator", 0, 10), ("python", 1, 3), ("operator", 4, 2)]
    before = timeline(host, [])
    after = with_host_kernels(before)
    kept = after.events.kind >= DEVICE_KINDS
    assert after.events.start_ns[kept].tolist() == before.events.start_ns.tolist()
    assert after.events.kind[kept].tolist() == before.events.kind.tolist()


@pytest.mark.parametrize("host", [[], [("python", 0, 5)], [("operator", 0, 0)]])
def test_nothing_to_do(host) -> None:
    before = timeline(host, [])
    assert with_host_kernels(before) is before


def test_a_gpus_timeline_is_left_alone() -> None:
    before = timeline([("operator", 0, 5)], [(3, 4, 0)])
    assert with_host_kernels(before) is before
