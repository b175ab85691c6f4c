"""What a sort of report is, and the words that their readers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gpuscope.document.text import Text
from gpuscope.timeline.types import Timeline

Event = dict[str, Any]

_LARGEST_US = 1e15


@dataclass(frozen=True, slots=True)
class Report:
    """A sort of report.

    Attributes:
        name: short, as `Source.format`.
        begins: its first bytes.
        events: its events in Kineto's words; raises `MisfitError` where it is damaged.
        cannot: what it does not say.
        fix: what to type for a report that does.
        devices: the devices that it describes, as Kineto's `deviceProperties`.
        completed: the timeline of its events, with what Kineto's words cannot say.
    """

    name: str
    begins: re.Pattern[bytes]
    events: Callable[[bytes], Iterable[Event]]
    cannot: Text
    fix: Text
    devices: Callable[[bytes], Iterable[Event]] = lambda _: ()
    completed: Callable[[bytes, Timeline], Timeline] = lambda _, timeline: timeline


def number(found: object) -> float | None:
    """A time that can be; None for anything else."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if 0 <= found < _LARGEST_US else None


def span(category: str, name: str, start_us: float, length_us: float, **more: Any) -> Event:
    """One event; on the host unless `more` says a stream's `tid`."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": 0, "tid": 0,
        "ts": start_us, "dur": length_us, **more,
    }  # fmt: skip


def step(index: int, start_us: float, length_us: float) -> Event:
    """The mark of a step."""
    return span("user_annotation", f"ProfilerStep#{index}", start_us, length_us)


def on_stream(category: str, name: str, start_us: float, length_us: float, stream: int) -> Event:
    """Work of the device."""
    args = {"device": 0, "stream": stream}
    return span(category, name, start_us, length_us, tid=stream, args=args)
