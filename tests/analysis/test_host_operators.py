"""The host's own time by name, on timelines with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from gpuscope.analysis.host_operators import host_operators
from gpuscope.analysis.window import Window
from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Timeline

OPERATOR, KERNEL = EVENT_KINDS.index("operator"), 0


def timeline(rows: list[tuple[int, int, str, int]]) -> Timeline:
    """Events of one thread, given as (start, duration, name, kind)."""
    names = tuple(dict.fromkeys(name for _, _, name, _ in rows))
    columns = np.array([(s, d, names.index(n), k) for s, d, n, k in rows], np.int64).reshape(-1, 4)
    none = np.full(len(rows), -1, np.int64)
    lane = np.zeros(len(rows), np.int64)
    return Timeline(
        names,
        (Lane("host", "host", 0, -1),),
        Events(*columns.T[:3], columns[:, 3], lane, none, none, none),
        origin="measured",
    )


def test_own_time_is_without_what_is_inside() -> None:
    found = host_operators(
        timeline(
            [
                (0, 100, "a", OPERATOR),
                (10, 30, "b", OPERATOR),
                (50, 20, "b", OPERATOR),
                (200, 5, "c", OPERATOR),
            ]
        ),
        0,
        None,
    )
    assert [(s.label, s.count) for s in found] == [("a", 1), ("b", 2), ("c", 1)]
    assert [s.time_s for s in found] == pytest.approx([50e-9, 50e-9, 5e-9])
    assert sum(s.time_s for s in found) == pytest.approx(105e-9)


def test_per_step_of_the_window() -> None:
    rows = [(step * 100, 40, "a", OPERATOR) for step in range(4)]
    (share,) = host_operators(timeline(rows), 0, Window(100, 300, 2))
    assert share.time_s == pytest.approx(40e-9)
    assert share.count == 1


def test_nothing_to_tell() -> None:
    assert host_operators(timeline([]), 0, None) == ()
    assert host_operators(timeline([(0, 5, "k", KERNEL)]), 0, None) == ()
    assert host_operators(timeline([(0, 5, "a", OPERATOR)]), 3, None) == ()
