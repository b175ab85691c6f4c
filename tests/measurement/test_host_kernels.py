from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_builders import timeline

from gpuscope.analysis.device_of import works_on_host
from gpuscope.measurement.host_kernels import own_pieces, with_host_kernels
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS


def test_each_piece_goes_to_the_innermost_operator() -> None:
    """linear [0, 100) holds t [5, 10) and addmm [20, 90); relu [110, 120) stands alone."""
    host = [("operator", 0, 100), ("operator", 5, 5), ("operator", 20, 70), ("operator", 110, 10)]
    found = with_host_kernels(timeline(host, []))
    events = found.events
    rows = np.flatnonzero(events.kind < DEVICE_KINDS)
    assert list(zip(events.start_ns[rows], events.duration_ns[rows], strict=True)) == [
        (0, 5),
        (5, 5),
        (10, 10),
        (20, 70),
        (90, 10),
        (110, 10),
    ]
    assert found.lanes[int(events.lane[rows[0]])].name == "cpu"
    work_lanes = sorted(set(events.lane[rows].tolist()))
    used = tuple(found.lanes[at] for at in work_lanes)
    assert works_on_host(replace(found, lanes=used), 0)
    assert not works_on_host(found, 0)  # a stream of a device is there too
    assert (np.diff(events.start_ns) >= 0).all()
    assert found.recorded.event.tolist() == rows.tolist()
    # Each points at the operator that it belongs to.
    assert events.start_ns[found.recorded.operator].tolist() == [0, 5, 0, 20, 0, 110]
    assert (events.kind[found.recorded.operator] >= DEVICE_KINDS).all()


def test_a_collective_is_communication() -> None:
    made = timeline([("operator", 0, 5)], [])
    found = with_host_kernels(replace(made, names=("gloo:all_reduce",)))
    kinds = [EVENT_KINDS[kind] for kind in found.events.kind.tolist()]
    assert sorted(kinds) == ["communication", "operator"]


def test_gloos_own_mark_is_the_collective_and_not_the_call_that_hands_it_over() -> None:
    made = timeline([("operator", 0, 5), ("other", 1, 90)], [])
    kinds = np.array([1, 0])  # the operator's name, then Gloo's
    events = replace(made.events, name=kinds, lane=np.array([0, 1]))
    lanes = (made.lanes[0], replace(made.lanes[0], name="pt_gloo_runloop"))
    names = ("gloo:broadcast", "c10d::broadcast_")
    found = with_host_kernels(replace(made, events=events, names=names, lanes=lanes))
    rows = np.flatnonzero(found.events.kind < DEVICE_KINDS)
    work = [
        (
            found.names[found.events.name[i]],
            EVENT_KINDS[found.events.kind[i]],
            int(found.events.duration_ns[i]),
        )
        for i in rows.tolist()
    ]
    assert work == [("c10d::broadcast_", "kernel", 5), ("gloo:broadcast", "communication", 90)]


def test_equal_ends_and_starts() -> None:
    """Outer and inner begin and end together; the next begins where they end."""
    host = [("operator", 0, 10), ("operator", 0, 10), ("operator", 10, 5)]
    owner, start, length = own_pieces(timeline(host, []).events)
    assert sorted(zip(start.tolist(), length.tolist(), owner.tolist(), strict=True)) == [
        (0, 10, 1),
        (10, 5, 2),
    ]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=9))
def test_pieces_against_the_obvious_way(drawn) -> None:
    """Nested intervals, nanosecond by nanosecond: the innermost is the one that began last."""
    nested: list[tuple[int, int]] = []
    for a, b in drawn:
        low, high = min(a, b), max(a, b)
        if all(
            high <= s or low >= e or (s <= low and high <= e) or (low <= s and e <= high)
            for s, e in nested
        ):
            nested.append((low, high))
    nested.sort(key=lambda i: (i[0], -i[1]))
    made = timeline([("operator", s, e - s) for s, e in nested], [])
    owner, start, length = own_pieces(made.events)
    told = np.full(50, -1)
    for o, s, n in zip(owner, start, length, strict=True):
        assert (told[s : s + n] == -1).all()
        told[s : s + n] = o
    for at in range(50):
        inside = [r for r, (s, e) in enumerate(nested) if s <= at < e]
        if not inside:
            assert told[at] == -1
        else:
            row = int(told[at])
            length_of = made.events.duration_ns
            assert row in inside
            assert length_of[row] == min(length_of[r] for r in inside)


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
