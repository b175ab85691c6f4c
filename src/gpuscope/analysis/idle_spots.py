"""Where the device lost its idle time: the same cause at the same place, summed over the step.

Every piece of idle time (see `gpuscope.analysis.idle`) gets the name of *what* was at fault and
*where* in the program it happened:

- what: the synchronisation, the data loader's call, the memory call, the garbage collector, else
  the innermost operator that the host was in, else the innermost Python frame or annotation;
- where: the deepest Python frame of the user's own code, else the module, else the annotation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import OpColumns, group_rows, longest_of
from gpuscope.analysis.host_activity import HostActivity, host_activity
from gpuscope.analysis.idle import DATA, IDLE_CAUSES, LAUNCH_GAP, STREAM, IdlePieces, idle_pieces
from gpuscope.analysis.window import LAUNCH, OPERATOR, DeviceWork, choose_window, device_work
from gpuscope.timeline.types import EVENT_KINDS, Ints, Timeline

Bools = npt.NDArray[np.bool_]

MOST_SPOTS = 40
"""How many places are told apart; the rest is one row a cause."""

SLOW_CALL_NS = 100_000
"""A launch call this long is named itself: it loads the kernel's code, stages a copy or waits for
room in the queue. Plain ones take 2-8 us, under a profiler up to 20."""

_MODULE = EVENT_KINDS.index("module")
_PYTHON = EVENT_KINDS.index("python")
_OTHER = EVENT_KINDS.index("other")

_CALL = re.compile(r"^(cuda|hip|cu|mu|cnrt|acl)[A-Z]")
_NOTABLE = re.compile(
    r"^(cuda|hip|cu|mu)(Malloc|Free|HostAlloc|HostMalloc|HostFree|FreeHost|Mem(Alloc|Free|Create|Map"
    r"|Unmap|Release|SetAccess)|ModuleLoad|LibraryLoad|GraphInstantiate|GraphExecUpdate"
    r"|HostRegister|HostUnregister|StreamCreate|EventCreate)"
    r"|^(Python GC|gc)\b|garbage collect|<built-in (method|function) collect"
)
_LIBRARY = re.compile(
    r"^<|(^|/)(torch|torchvision|torchaudio|numpy|functools|contextlib|threading|importlib"
    r"|transformers|accelerate|triton)(/|\.py\()|^autograd|(^|/)lib/python3"
)
_INDEX = re.compile(r"(?<=[._])\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class IdleSpot:
    """Idle time of one cause at one place.

    Attributes:
        cause: one of `gpuscope.analysis.idle.IDLE_CAUSES`.
        what: what was at fault ("cudaStreamSynchronize", "aten::item", "cudaMalloc"); "" if
            nothing is recorded, "other places" for what is too small to be told apart.
        within: operator around `what`, where that is a call; "" if none.
        where: Python frame, module or annotation; "" if none.
        time_s: idle seconds a step.
        count: how many idle stretches a step, at least 1.
        start_ns: begin of the longest stretch, on the timeline's clock.
        longest_s: how long that one is.
    """

    cause: str
    what: str
    within: str
    where: str
    time_s: float
    count: int
    start_ns: int
    longest_s: float


def idle_spots(
    timeline: Timeline,
    rank: int,
    *,
    work: DeviceWork | None = None,
    host: HostActivity | None = None,
    ops: OpColumns | None = None,
    pieces: IdlePieces | None = None,
    idle_s: float | None = None,
) -> tuple[IdleSpot, ...]:
    """Return where the device of a rank lost its idle time, largest first ("other places" last).

    The times add up to the idle time of a step. () where the rank has no device work.

    Args:
        timeline: predicted or measured.
        rank: whose device.
        work, host, ops, pieces: as `analyze` has them; found here where left out.
        idle_s: idle seconds of a step where they are known better than from the timeline; the
            spots are scaled to add up to it.
    """
    ops = OpColumns.of(timeline) if ops is None else ops
    if work is None:
        window = choose_window(timeline, rank)
        if window is None:
            return ()
        work = device_work(timeline, rank, window)
    if len(work) == 0 or (idle_s is not None and idle_s <= 0):
        return ()
    host = host_activity(timeline, rank, ops) if host is None else host
    pieces = idle_pieces(timeline, work, host, ops) if pieces is None else pieces
    if len(pieces) == 0:
        return ()
    places = _Places(timeline, host, ops)
    what, within, where = places.of(pieces)
    total_ns = int(pieces.length_ns.sum())
    per_ns = 1e-9 / work.window.steps
    if idle_s is not None and total_ns:
        per_ns = idle_s / total_ns
    return _spots(places.texts, pieces, (pieces.cause, what, within, where), per_ns, work)


def idle_reasons(
    timeline: Timeline, host: HostActivity, ops: OpColumns, pieces: IdlePieces
) -> tuple[tuple[str, ...], Ints]:
    """Return what was at fault for each piece of idle time: names, and an index into them a piece.

    The name is "" where nothing is recorded.

    Args:
        timeline, host, ops, pieces: as `analyze` has them.
    """
    places = _Places(timeline, host, ops)
    return places.texts, places.of(pieces)[0]


class _Places:
    """Names of what was at fault and where, as codes into one table of texts."""

    def __init__(self, timeline: Timeline, host: HostActivity, ops: OpColumns) -> None:
        events = timeline.events
        self.events, self.host, self.ops = events, host, ops
        names = timeline.names
        self.is_operator = events.kind == OPERATOR
        slow = (events.kind == LAUNCH) & (events.duration_ns >= SLOW_CALL_NS)
        self.is_notable = _named(names, _NOTABLE)[events.name] | slow
        calls = _named(names, _CALL)[events.name]
        library = _named(names, _LIBRARY)[events.name]
        self.is_frame = (events.kind == _PYTHON) & ~library
        self.is_python = events.kind == _PYTHON
        self.is_module = events.kind == _MODULE
        self.is_mark = (events.kind == _OTHER) & ~calls
        modules = tuple(_INDEX.sub("*", path) for path in ops.module.table)
        number: dict[str, int] = {"": 0}
        self.name = _numbers(names, number)
        self.module = _numbers(modules, number)
        self.texts = tuple(number)

    def of(self, pieces: IdlePieces) -> tuple[Ints, Ints, Ints]:
        """Return codes of what, within and where for each piece."""
        host = np.where(pieces.sync >= 0, pieces.sync, pieces.host)
        nearest = self.host.threads.nearest
        operator = nearest(host, self.is_operator)
        notable = nearest(host, self.is_notable)
        loader = np.where(pieces.cause == DATA, nearest(host, self.host.is_loader), -1)
        frame = nearest(host, self.is_frame)
        around = _first(frame, nearest(host, self.is_python | self.is_mark | self.is_module))
        what = _first(pieces.sync, loader, notable, operator, around)
        queued = (pieces.cause == STREAM) | (pieces.cause == LAUNCH_GAP)
        waited = np.where(queued, pieces.ender, -1)
        what = np.where(pieces.cause == STREAM, waited, what)
        within = np.where((what == operator) | (pieces.cause == DATA), -1, operator)
        what, where = self._name(what), self._where(host, operator, frame)
        return what, self._name(within), np.where(where == what, 0, where)

    def _where(self, host: Ints, operator: Ints, frame: Ints) -> Ints:
        """Codes of the places, from the operators and Python frames around the host's events."""
        nearest = self.host.threads.nearest
        mark = _first(nearest(host, self.is_module), nearest(host, self.is_mark))
        op = np.where(operator >= 0, self.events.op[np.maximum(operator, 0)], -1)
        module = self.ops.module.take(op)
        code = np.where(module > 0, self.module[module], self._name(mark))
        return np.where(frame >= 0, self._name(frame), code)

    def _name(self, rows: Ints) -> Ints:
        return np.where(rows >= 0, self.name[self.events.name[np.maximum(rows, 0)]], 0)


def _numbers(texts: tuple[str, ...], number: dict[str, int]) -> Ints:
    """Number texts, equal ones alike, in a table that grows."""
    return np.array([number.setdefault(text, len(number)) for text in texts], np.int64)


def _first(*rows: Ints) -> Ints:
    """The first of several rows that is known (not -1)."""
    found = rows[-1]
    for earlier in reversed(rows[:-1]):
        found = np.where(earlier >= 0, earlier, found)
    return found


def _spots(
    texts: tuple[str, ...],
    pieces: IdlePieces,
    columns: tuple[Ints, ...],
    per_ns: float,
    work: DeviceWork,
) -> tuple[IdleSpot, ...]:
    """Sum the pieces by their columns."""
    first, group = group_rows(*columns)
    keys = np.stack([column[first] for column in columns])
    count = len(first)
    length = pieces.length_ns
    time = np.bincount(group, weights=length, minlength=count)
    # Pieces are in time order: one stretch of a group is all of its pieces within one gap.
    begins, stretch = group_rows(group, pieces.gap)
    stretches = np.bincount(group[begins], minlength=count)
    lasting = np.bincount(stretch, weights=length)[stretch]
    longest = longest_of(group, lasting, count)
    spots = [
        IdleSpot(
            cause=IDLE_CAUSES[keys[0, i]],
            what=texts[keys[1, i]],
            within=texts[keys[2, i]],
            where=texts[keys[3, i]],
            time_s=float(time[i]) * per_ns,
            count=max(1, round(int(stretches[i]) / work.window.steps)),
            start_ns=int(pieces.start_ns[longest[i]]),
            longest_s=float(lasting[longest[i]]) * 1e-9,
        )
        for i in np.argsort(-time, kind="stable").tolist()
    ]
    return tuple(_shortened(spots))


def _shortened(spots: list[IdleSpot]) -> list[IdleSpot]:
    """Keep the largest; sum the rest, one row a cause, so that the total stays."""
    rest: dict[str, IdleSpot] = {}
    for spot in spots[MOST_SPOTS:]:
        known = rest.get(spot.cause)
        rest[spot.cause] = (
            replace(spot, what="other places", within="", where="")
            if known is None
            else replace(known, time_s=known.time_s + spot.time_s, count=known.count + spot.count)
        )
    return [*spots[:MOST_SPOTS], *sorted(rest.values(), key=lambda spot: -spot.time_s)]


def _named(names: tuple[str, ...], pattern: re.Pattern[str]) -> Bools:
    return np.fromiter((bool(pattern.search(name)) for name in names), bool, len(names))
