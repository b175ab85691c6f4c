"""The columns of a file's events, filled chunk by chunk."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from gpuscope.timeline.kineto.arguments import Arguments, plain_arguments
from gpuscope.timeline.kineto.records import (
    UNUSABLE,
    Event,
    Instant,
    Meta,
    Other,
    Parsed,
    Value,
    nanoseconds,
)
from gpuscope.timeline.kineto.vocabulary import SORTS, sort_of
from gpuscope.timeline.types import Ints

K = TypeVar("K")

_LATEST_US = 4e15
LONGEST_NS = 1_000_000_000_000_000_000
"""Durations beyond (31 years) are no durations."""


class Numbers(dict[K, int], Generic[K]):
    """Numbers distinct values in order of appearance: `numbers[value]`."""

    def __missing__(self, value: K) -> int:
        number = len(self)
        self[value] = number
        return number


class DeviceArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "external": "External id",
        "registers": "registers per thread",
        "shared": "shared memory",
        "occupancy": "est. achieved occupancy %",
        "graph": "graph id",
        "node": "graph node id",
        "collective": "Collective name",
        "size": "size",
    },
):
    """What is kept of a device event's `args`."""

    correlation: int = -1
    external: int = -1
    stream: int | str = -1
    device: int | str = -1
    registers: int = -1
    shared: int = -1
    occupancy: float = float("nan")
    bytes: int | str = -1
    size: int | str = -1
    graph: int = -1
    node: int = -1
    collective: str = ""
    grid: list[int] = []
    block: list[int] = []


class CallArgs(msgspec.Struct, gc=False, rename={"external": "External id"}):
    """What is kept of a runtime call's `args`."""

    correlation: int = -1
    external: int = -1


_NO_VALUE = msgspec.Raw(b"")


class OperatorArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "external": "External id",
        "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
        "dims": "Input Dims",
        "types": "Input type",
        "strides": "Input Strides",
        "concrete": "Concrete Inputs",
        "collective": "Collective name",
    },
):
    """What is kept of an operator's `args`; lists stay text until they are known to be new."""

    external: int = -1
    sequence: int = -1
    forward_thread: int = -1
    dims: msgspec.Raw = _NO_VALUE
    types: msgspec.Raw = _NO_VALUE
    strides: msgspec.Raw = _NO_VALUE
    concrete: msgspec.Raw = _NO_VALUE
    collective: str = ""


class OwnArgs(msgspec.Struct, gc=False):
    """What gpuscope's own writer keeps of an event."""

    correlation: int = -1
    op: str = ""
    op_index: int = -1
    module: str = ""
    phase: str = ""


class MemoryArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "type": "Device Type",
        "device": "Device Id",
        "allocated": "Total Allocated",
        "reserved": "Total Reserved",
    },
):
    """What an instant of the allocator says. Device type 0 is the host."""

    type: int = -1
    device: int = -1
    allocated: int = -1
    reserved: int = -1


_DEVICE, _CALL = Arguments(DeviceArgs), Arguments(CallArgs)
_OPERATOR, _OWN = Arguments(OperatorArgs), Arguments(OwnArgs)
_MEMORY = Arguments(MemoryArgs)

Spec = tuple[bytes, bytes, bytes, bytes]
"""The raw lists of an operator's inputs: sizes, types, strides, values."""


@dataclass(slots=True)
class Columns:
    """Growing columns of equal length: each chunk's in the narrowest integers that hold them."""

    parts: dict[str, list[Any]] = field(default_factory=dict)
    rows: int = 0

    def add(self, **columns: Any) -> None:
        """Append some rows."""
        self.rows += len(next(iter(columns.values())))
        for name, column in columns.items():
            self.parts.setdefault(name, []).append(_narrow(column))

    def column(self, name: str) -> Any:
        """One column whole, integers in 64 bits; empty where nothing was added."""
        parts = self.parts.get(name)
        if not parts:
            return np.zeros(0, np.int64)
        wide = np.float64 if parts[0].dtype.kind == "f" else np.int64
        return np.concatenate(parts, dtype=wide)

    def take(self, name: str) -> Any:
        """`column`, which is then kept no more."""
        found = self.column(name)
        self.parts.pop(name, None)
        return found

    def join(self, names: Iterable[str]) -> dict[str, Any]:
        """One array a name."""
        return {name: self.column(name) for name in names}


def _narrow(column: Any) -> Any:
    if column.dtype.kind == "i" and column.size:
        low, high = column.min(), column.max()
        for kind in (np.int8, np.int16, np.int32):
            info = np.iinfo(kind)
            if info.min <= low and high <= info.max:
                return column.astype(kind)
    return column


class Table:
    """Everything kept of a file's events.

    Attributes:
        names, categories, places, specs, collectives, own_calls: numbers of distinct values.
            Places are process and thread ids as the file writes them; specs are operators' inputs;
            collectives are the `args` that describe one, as text; own_calls are operators of files
        that gpuscope wrote: name, module, phase.
        events: start_ns, duration_ns, name, category, pid, tid: one row a complete event.
        device, calls, operators, own: columns of the categories that have them, with `row`.
        memory: columns of the allocator's instants.
        metadata, counters: the few other events that are not complete ones.
        counts: events by category.
        skipped: events that cannot be used.
        negative: device events among them that end before they begin.
    """

    def __init__(self) -> None:
        self.names: Numbers[str] = Numbers()
        self.categories: Numbers[str] = Numbers()
        self.places: Numbers[int | str | None] = Numbers()
        self.specs: Numbers[Spec] = Numbers()
        self.collectives: Numbers[bytes] = Numbers()
        self.own_calls: Numbers[tuple[str, str, str]] = Numbers()
        self.events, self.device, self.calls = Columns(), Columns(), Columns()
        self.operators, self.own, self.memory = Columns(), Columns(), Columns()
        self.metadata: list[Meta] = []
        self.counters: list[tuple[int, str, dict[str, Any]]] = []
        self.counts: Tally[str] = Tally()
        self.skipped = self.negative = 0
        self.rows = 0
        self.is_own = False

    @property
    def seen(self) -> int:
        """Events of all sorts that were taken in."""
        return self.rows + len(self.metadata) + len(self.counters) + self.memory.rows

    def add(self, parsed: Parsed) -> None:
        """Take in the events of one chunk."""
        start, duration = parsed.start_ns, parsed.duration_ns
        usable = (start != UNUSABLE) & (duration >= 0) & (duration < LONGEST_NS)
        unusable = len(usable) - int(usable.sum())
        self.skipped += parsed.skipped + unusable
        self._rest(parsed.others)
        events = parsed.events
        if unusable:
            backward = np.flatnonzero((duration < 0) & (duration != UNUSABLE) & (start != UNUSABLE))
            self.negative += sum(sort_of(events[i].cat) == "device" for i in backward.tolist())
            events = [events[i] for i in np.flatnonzero(usable).tolist()]
            start, duration = start[usable], duration[usable]
        if events:
            self._complete(events, start, duration)

    def _complete(self, events: list[Event], start: Ints, duration: Ints) -> None:
        count = len(events)
        category = _numbered(self.categories, [e.cat for e in events])
        self.events.add(
            start_ns=start,
            duration_ns=duration,
            category=category,
            name=_numbered(self.names, [e.name for e in events]),
            pid=_numbered(self.places, [e.pid for e in events]),
            tid=_numbered(self.places, [e.tid for e in events]),
        )
        words = list(self.categories)
        found = np.bincount(category, minlength=len(words)).tolist()
        for word, n in zip(words, found, strict=True):
            if n:
                self.counts[word] += n
        sort = np.array([SORTS.index(sort_of(word)) for word in words])[category]
        readers: dict[str, Callable[[list[Any], Ints], None]] = {
            "device": self._add_device,
            "on_device": self._add_device,
            "runtime": self._add_calls,
            "operator": self._add_operators,
            "mark": self._add_operators,
        }
        for name, reader in readers.items():
            rows = np.flatnonzero(sort == SORTS.index(name))
            if len(rows):
                reader([events[i].args for i in rows.tolist()], rows + self.rows)
        if self.is_own:
            self._add_own([event.args for event in events], np.arange(count) + self.rows)
        self.rows += count

    def _rest(self, others: Sequence[Other]) -> None:
        """Metadata, counters, and what the allocator says."""
        kinds = [type(event) for event in others]
        memory = [
            event
            for event, kind in zip(others, kinds, strict=True)
            if kind is Instant and event.name == "[memory]"
        ]
        if memory:
            self._add_memory(memory)
        if len(memory) == len(others):
            return
        for event in others:
            if isinstance(event, Meta):
                event.args = event.args.copy()  # else it would keep the text of its whole chunk
                self.metadata.append(event)
            elif isinstance(event, Value) and abs(event.ts) < _LATEST_US:
                time_ns = int(nanoseconds(np.array([event.ts]))[0])
                self.counters.append((time_ns, event.name, plain_arguments(event.args)))
                self.counts[event.cat or "counter"] += 1

    def _add_memory(self, instants: Sequence[Any]) -> None:
        args = _MEMORY.decode([event.args for event in instants])
        time = nanoseconds(np.fromiter([event.ts for event in instants], np.float64))
        self.counts[instants[0].cat or "[memory]"] += len(instants)
        self.memory.add(
            time_ns=time,
            type=integers([a.type for a in args]),
            device=integers([a.device for a in args]),
            allocated=integers([a.allocated for a in args]),
            reserved=integers([a.reserved for a in args]),
        )

    # -- arguments by category --------------------------------------------------------------------

    def _add_device(self, raws: list[Any], rows: Ints) -> None:
        args = _DEVICE.decode(raws)
        nbytes = integers([a.bytes for a in args])
        size = integers([a.size for a in args])
        graph = integers([a.graph for a in args])
        node = integers([a.node for a in args])
        self.device.add(
            row=rows,
            correlation=integers([a.correlation for a in args]),
            external=integers([a.external for a in args]),
            stream=integers([a.stream for a in args]),
            device=integers([a.device for a in args]),
            registers=integers([a.registers for a in args]),
            shared=integers([a.shared for a in args]),
            occupancy=np.fromiter([a.occupancy for a in args], np.float64, len(args)),
            nbytes=np.where(nbytes >= 0, nbytes, size),
            graph=np.where(graph > 0, graph, np.where(node > 0, 0, -1)),
            grid=_triples([a.grid for a in args]),
            block=_triples([a.block for a in args]),
            collective=self._described([a.collective for a in args], raws),
        )

    def _add_calls(self, raws: list[Any], rows: Ints) -> None:
        args = _CALL.decode(raws)
        self.calls.add(
            row=rows,
            correlation=integers([a.correlation for a in args]),
            external=integers([a.external for a in args]),
        )

    def _add_operators(self, raws: list[Any], rows: Ints) -> None:
        args = _OPERATOR.decode(raws)
        self.operators.add(
            row=rows,
            external=integers([a.external for a in args]),
            sequence=integers([a.sequence for a in args]),
            forward_thread=integers([a.forward_thread for a in args]),
            spec=self._inputs(args),
            collective=self._described([a.collective for a in args], raws),
        )

    def _inputs(self, args: Sequence[OperatorArgs]) -> Ints:
        """Number of each operator's inputs; without shapes recorded, all have the first."""
        found = np.full(len(args), self.specs[NO_SPEC], np.int64)
        known = [i for i, a in enumerate(args) if a.types is not _NO_VALUE]
        if known:
            found[known] = _numbered(self.specs, [_spec(args[i]) for i in known])
        return found

    def _add_own(self, raws: list[Any], rows: Ints) -> None:
        args = _OWN.decode(raws)
        self.own.add(
            row=rows,
            correlation=integers([a.correlation for a in args]),
            op=integers([a.op_index for a in args]),
            call=_numbered(self.own_calls, [(a.op, a.module, a.phase) for a in args]),
        )

    def _described(self, names: Sequence[str], raws: Sequence[Any]) -> Ints:
        """Number of the text that describes a collective; -1 where there is none."""
        found = np.full(len(names), -1, np.int64)
        for i, name in enumerate(names):
            if name:
                found[i] = self.collectives[bytes(raws[i])]
        return found


def _spec(args: OperatorArgs) -> Spec:
    return bytes(args.dims), bytes(args.types), bytes(args.strides), bytes(args.concrete)


NO_SPEC: Spec = (b"", b"", b"", b"")
"""The inputs of an operator of which nothing is told."""


def _numbered(numbers: Numbers[Any], values: list[Any]) -> Ints:
    return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))


def integers(values: Sequence[Any]) -> Ints:
    """Whole numbers as a column; -1 for what is none or has no room in 64 bits."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (OverflowError, TypeError, ValueError):
        return np.array([_integer(value) for value in values], np.int64)


def _integer(value: object) -> int:
    if isinstance(value, str):
        digits = value.rsplit(" ", 1)[-1]
        value = int(digits) if digits.isdecimal() and len(digits) < 19 else -1
    if isinstance(value, int) and -(1 << 62) < value < 1 << 62:
        return value
    return -1


def _triples(values: Sequence[list[int]]) -> Ints:
    """(n, 3) launch dimensions; -1 where they are not three numbers."""
    if set(map(len, values)) <= {0, 3}:
        try:
            flat = chain.from_iterable([v or _UNKNOWN for v in values])
            return np.fromiter(flat, np.int64, 3 * len(values)).reshape(-1, 3)
        except OverflowError:
            pass
    return np.array(
        [v if len(v) == 3 and all(abs(n) < 1 << 62 for n in v) else _UNKNOWN for v in values],
        np.int64,
    ).reshape(-1, 3)


_UNKNOWN = [-1, -1, -1]
