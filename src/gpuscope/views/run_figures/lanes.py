"""The step's timeline in one picture: what each lane does, from the step's begin to its end.

A lane is cut into slots; within a slot, work stands in front and idle time behind it. So a picture
of a million events stays small, and the lengths in a lane still add up to the nanosecond.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.symbols import kernel_family
from gpuscope.cost.types import Kernel
from gpuscope.document import format as units
from gpuscope.document.blocks import Bar, Bars, Part, Role
from gpuscope.document.text import Text, sentences
from gpuscope.run import Run
from gpuscope.timeline.intervals import Intervals, merge
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Timeline
from gpuscope.views.palette import kind_role
from gpuscope.views.words import word_text

Floats = npt.NDArray[np.float64]

_SLOTS = 240
_MOST_LANES = 12

_HOST = Text("host at work")
_WAITS = Text("host waits")
_IDLE = Text("idle")
_SYNC = EVENT_KINDS.index("sync")
_HOST_WORK = tuple(EVENT_KINDS.index(kind) for kind in ("operator", "launch"))


class _Group(NamedTuple):
    """What one colour stands for."""

    words: Text
    role: Role


def lanes(run: Run) -> Bars | None:
    """Return one step, lane by lane; None without a timeline."""
    timeline = run.timeline
    events = timeline.events
    if not len(events):
        return None
    window = _window(timeline)
    if window is None:
        return None
    inside = (events.end_ns > window[0]) & (events.start_ns < window[1])
    bars = [
        bar
        for lane in sorted(range(len(timeline.lanes)), key=lambda i: timeline.lanes[i].rank)
        if (bar := _lane(timeline, lane, np.flatnonzero(inside & (events.lane == lane)), window))
    ]
    if not bars:
        return None
    title = Text("One step over time")
    return Bars(title, "s", tuple(bars[:_MOST_LANES]), note=_note(bars))


def _note(bars: list[Bar]) -> Text:
    more = len(bars) - _MOST_LANES
    return sentences(
        Text("Left is the begin of the step; short neighbouring work is drawn together."),
        Text("{more} more lanes are not drawn.", more=more) if more > 0 else None,
    )


def _window(timeline: Timeline) -> tuple[int, int] | None:
    """A marked step from the middle (the first may still be warming up); without one, from the
    first to the last device event."""
    if timeline.steps:
        of_rank = [step for step in timeline.steps if step.rank == timeline.steps[0].rank]
        step = of_rank[len(of_rank) // 2]
        return (step.start_ns, step.end_ns) if step.end_ns > step.start_ns else None
    events = timeline.events
    rows = np.flatnonzero(events.kind < DEVICE_KINDS)
    rows = rows if len(rows) else np.arange(len(events))
    window = int(events.start_ns[rows].min()), int(events.end_ns[rows].max())
    return window if window[1] > window[0] else None


def _lane(timeline: Timeline, lane: int, rows: Ints, window: tuple[int, int]) -> Bar | None:
    groups = _groups(timeline, rows)
    if not groups:
        return None
    edges = np.linspace(window[0], window[1], _SLOTS + 1)
    spent = {group: np.diff(_covered_until(found, edges)) for group, found in groups.items()}
    parts = _parts(spent, np.diff(edges))
    total = sum(part.value for part in parts)
    busy = sum(part.value for part in parts if part.label not in (_IDLE, _WAITS))
    share = units.share(busy / total)
    place = timeline.lanes[lane]
    ranks = len({each.rank for each in timeline.lanes})
    name = f"rank {place.rank} · {place.name}" if ranks > 1 else place.name
    return Bar(name, parts, Text("at work {share}", share=share))


def _groups(timeline: Timeline, rows: Ints) -> dict[_Group, Intervals]:
    """Disjoint intervals by group: of work that overlaps in a lane, the first group has it."""
    events = timeline.events
    by_group: dict[_Group, list[Ints]] = defaultdict(list)
    for alike in _alike(timeline, rows):
        group = _group(timeline, int(alike[0]))
        if group is not None:
            by_group[group].append(alike)
    taken: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    found = {}
    # Waiting comes first: it lies inside the operator that waits.
    for group in sorted(by_group, key=lambda g: g.words != _WAITS):
        chosen = np.concatenate(by_group[group])
        union = merge(events.start_ns[chosen], events.end_ns[chosen])
        found[group] = _without(union, taken)
        taken = merge(np.concatenate((taken[0], union[0])), np.concatenate((taken[1], union[1])))
    return found


def _alike(timeline: Timeline, rows: Ints) -> list[Ints]:
    """Rows by kind, name and kernel: there are few of these, and may be a million rows."""
    if not len(rows):
        return []
    events = timeline.events
    columns = np.stack((events.kind[rows], events.name[rows], events.kernel[rows]), axis=1)
    _, code = np.unique(columns, axis=0, return_inverse=True)
    order = np.argsort(code.ravel(), kind="stable")
    cuts = np.flatnonzero(np.diff(code.ravel()[order])) + 1
    return [np.asarray(rows[part], np.int64) for part in np.split(order, cuts)]


def _without(first: Intervals, second: Intervals) -> Intervals:
    from gpuscope.timeline.intervals import subtraction

    return subtraction(first, second) if len(second[0]) else first


def _group(timeline: Timeline, row: int) -> _Group | None:
    events = timeline.events
    kind = int(events.kind[row])
    if kind == _SYNC:
        return _Group(_WAITS, "waste")
    if kind in _HOST_WORK:
        return _Group(_HOST, "host")
    if kind >= DEVICE_KINDS:
        return None
    number = int(events.kernel[row])
    kernel = timeline.kernels[number] if number >= 0 else None
    if isinstance(kernel, Kernel):
        family: str = kernel.kind
    else:
        family = kernel_family(timeline.names[int(events.name[row])])
    return _Group(word_text(family), kind_role(family))


def _covered_until(found: Intervals, edges: Floats) -> Floats:
    """Nanoseconds of the intervals that lie before each edge."""
    starts, ends = found
    if not len(starts):
        return np.zeros(len(edges))
    points = np.column_stack((starts, ends)).ravel().astype(float)
    done = np.cumsum(ends - starts).astype(float)
    before = np.column_stack((np.concatenate(([0.0], done[:-1])), done)).ravel()
    return np.asarray(np.interp(edges, points, before), np.float64)


def _parts(spent: dict[_Group, Floats], slots: Floats) -> tuple[Part, ...]:
    """Slot by slot: the groups, then what is idle; equal neighbours become one part."""
    idle = _Group(_IDLE, "idle")
    merged: list[tuple[_Group, float]] = []
    for slot, length in enumerate(slots.tolist()):
        held = [(group, float(amount[slot])) for group, amount in spent.items()]
        # A group that went on in the last slot stands first here.
        held.sort(key=lambda item: not merged or item[0] != merged[-1][0])
        rest = max(0.0, length - sum(amount for _, amount in held))
        for group, amount in (*held, (idle, rest)):
            if amount <= 0:
                continue
            if merged and merged[-1][0] == group:
                merged[-1] = (group, merged[-1][1] + amount)
            else:
                merged.append((group, amount))
    return tuple(Part(group.words, amount * 1e-9, group.role) for group, amount in merged)
