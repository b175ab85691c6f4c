"""Which blocks live at the peak of an allocator's trace."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "validation")]

from memory_at_peak import live_at_peak  # noqa: E402


def _event(action: str, at: int, size: int, line: int = 0) -> dict[str, object]:
    return {
        "action": action,
        "addr": at,
        "size": size,
        "frames": [{"filename": "a.py", "line": line}],
    }


def test_what_lives_at_the_highest_point() -> None:
    events = [
        _event("alloc", 1, 100, 7),
        _event("alloc", 2, 50, 8),
        _event("free_requested", 2, 50),
        _event("free_completed", 2, 50),
        _event("alloc", 3, 70, 9),
        _event("free_requested", 1, 100),
        _event("alloc", 4, 60, 10),
    ]
    peak, blocks = live_at_peak(events)
    assert peak == 170
    assert blocks == [(100, "a.py:7"), (70, "a.py:9")]


def test_a_peak_that_nothing_leaves() -> None:
    assert live_at_peak([_event("alloc", 1, 10, 3)]) == (10, [(10, "a.py:3")])
