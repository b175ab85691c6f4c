"""A database of rocprofv3 (rocpd) to a `Timeline`: kernels, copies, HIP and HSA calls, ranges.

Format: AMD, rocprofiler-sdk, `rocpd_tables.sql` (schema 3). Each process has tables of its own and
becomes a rank. Names stand in `rocpd_string`; a call and the work that it starts refer to rows of
`rocpd_event` of the same `stack_id`, or of the same `correlation_id`, by who wrote them. Grids
count work items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside import limits
from gpuscope.timeline.communication import is_communication
from gpuscope.timeline.kineto.rocprof import copy_name
from gpuscope.timeline.kineto.vocabulary import runtime_kind
from gpuscope.timeline.nsys.build import TID_BITS, Builder, Rows
from gpuscope.timeline.nsys.database import Columns, Database
from gpuscope.timeline.nsys.read import range_kind
from gpuscope.timeline.types import Ints, RecordedDevice, Source, Timeline

_TIES = ("stack_id", "correlation_id")
_EVERY = ("start", "end", "pid", "tid", "event_id")
_WORK = (*_EVERY, "queue_id", "stream_id")
_SIZES = tuple(f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in "xyz")


def read_rocpd(database: Database) -> Timeline:
    """Read an open database of rocprofv3.

    Raises:
        InputFileError: damaged, or nothing in it.
    """
    if len(database.parts) > limits.parties():
        raise limits.holds_too_many(database.path, Text("processes"), limits.parties())
    builder = Builder()
    parts = [_Part(database, builder, end) for end in database.parts]
    for part in parts:
        part.read()
    if not builder.count:
        raise InputFileError(
            Text("{path} holds no events.", path=database.path),
            "",
            Text("Type: {command}", command="rocprofv3 --sys-trace -- PROGRAM"),
        )
    devices = tuple(device for part in parts for device in part.devices)
    sources = [
        Source(
            rank=rank,
            path=str(database.path),
            format="rocpd",
            host=parts[0].host,
            devices=devices,
            base_ns=builder.origin_ns,
            events_read=sum(counts.values()),
            counts=counts,
        )
        for rank, counts in enumerate(builder.counts())
    ]
    return builder.timeline(sources, ())


class _Part:
    """The tables of one process."""

    def __init__(self, database: Database, builder: Builder, end: str) -> None:
        self._database, self._builder, self._end = database, builder, end
        self._strings = self._texts("string", "string")
        self._pids = self._numbers("info_process", "pid")
        self._tids = self._numbers("info_thread", "tid")
        agents = self._rows("info_agent", ("id", "type", "product_name", "name"))
        gpus = [row for row in agents if row[1] == "GPU"]
        self._gpus = {row[0]: number for number, row in enumerate(gpus)}
        self.devices = tuple(
            RecordedDevice(index=number, name=_text(row[2] or row[3]))
            for number, row in enumerate(gpus)
        )
        self.host = next((_text(row[0]) for row in self._rows("info_node", ("hostname",))), "")
        events = self._columns("event", ("id", "category_id", *_TIES))
        self._events = {name: column[np.argsort(events["id"])] for name, column in events.items()}

    def read(self) -> None:
        """Add the part's events to the builder."""
        regions = self._columns("region", (*_EVERY, "name_id"))
        kernels = self._columns(
            "kernel_dispatch", (*_WORK, "agent_id", "kernel_id", "group_segment_size", *_SIZES)
        )
        copies = self._columns(
            "memory_copy", (*_WORK, "name_id", "size", "dst_agent_id", "src_agent_id")
        )
        tie = max(_TIES, key=lambda each: self._tied(each, regions, (kernels, copies)))
        self._regions(regions, tie)
        self._kernels(kernels, tie)
        self._copies(copies, tie)

    def _regions(self, c: Columns, tie: str) -> None:
        categories = self._event(c, "category_id").tolist()
        names = [self._strings.get(i) or "call" for i in c["name_id"].tolist()]
        kinds = [
            range_kind(name, self._builder)
            if self._strings.get(category, "").startswith("MARKER")
            else runtime_kind(name)
            for name, category in zip(names, categories, strict=True)
        ]
        number = _ints(self._builder.name(name) for name in names)
        thread = self._process(c) << TID_BITS | self._mapped(self._tids, c["tid"])
        is_step = np.array(kinds, np.int64) == self._builder.STEP
        self._builder.host(self._row(c, number, _ints(kinds), tie), thread)
        self._builder.steps(is_step, {**c, "globalTid": thread})

    def _kernels(self, c: Columns, tie: str) -> None:
        symbols = {
            row[0]: _text(row[1]) or _text(row[2]).removesuffix(".kd")
            for row in self._rows("info_kernel_symbol", ("id", "display_name", "kernel_name"))
        }
        names = [symbols.get(i) or "unknown kernel" for i in c["kernel_id"].tolist()]
        kinds = [
            self._builder.COMMUNICATION if is_communication(name) else self._builder.KERNEL
            for name in names
        ]
        items, block = (
            np.stack([c[f"{what}_size_{axis}"] for axis in "xyz"], axis=1)
            for what in ("grid", "workgroup")
        )
        known = ((items > 0) & (block > 0)).all(axis=1, keepdims=True)
        self._builder.device(
            self._row(c, _ints(map(self._builder.name, names)), _ints(kinds), tie),
            self._mapped(self._gpus, c["agent_id"]),
            self._stream(c),
            grid=np.where(known, -(-items // np.maximum(block, 1)), -1),
            block=np.where(known, block, -1),
            shared_bytes=c["group_segment_size"],
        )

    def _copies(self, c: Columns, tie: str) -> None:
        names = [copy_name(self._strings.get(i, "")) for i in c["name_id"].tolist()]
        ends = zip(c["dst_agent_id"].tolist(), c["src_agent_id"].tolist(), strict=True)
        device = [self._gpus.get(to, self._gpus.get(source, 0)) for to, source in ends]
        kinds = np.full(len(names), self._builder.MEMCPY)
        self._builder.device(
            self._row(c, _ints(map(self._builder.name, names)), kinds, tie),
            _ints(device),
            self._stream(c),
            nbytes=c["size"],
        )

    # -- columns ----------------------------------------------------------------------------------

    def _tied(self, tie: str, calls: Columns, works: Sequence[Columns]) -> int:
        """Device work that a column of its event ties to a call."""
        keys = self._event(calls, tie)
        found = (np.isin(self._event(work, tie), keys[keys > 0]) for work in works)
        return sum(int(each.sum()) for each in found)

    def _event(self, c: Columns, column: str) -> Ints:
        """What the event that each row refers to says; -1 where there is none."""
        ids = self._events["id"]
        if not len(ids):
            return np.full(len(c["start"]), -1, np.int64)
        at = np.minimum(np.searchsorted(ids, c["event_id"]), len(ids) - 1)
        return np.where(ids[at] == c["event_id"], self._events[column][at], -1)

    def _row(self, c: Columns, name: Ints, kind: Ints, tie: str) -> Rows:
        return Rows(
            start_ns=c["start"],
            end_ns=np.maximum(c["end"], c["start"]),
            name=name,
            kind=kind,
            correlation=self._event(c, tie),
            process=self._process(c) << TID_BITS,
        )

    def _process(self, c: Columns) -> Ints:
        return self._mapped(self._pids, c["pid"])

    def _stream(self, c: Columns) -> Ints:
        return np.maximum(np.where(c["stream_id"] > 0, c["stream_id"], c["queue_id"]), 0)

    @staticmethod
    def _mapped(numbers: dict[Any, int], column: Ints) -> Ints:
        return _ints(numbers.get(each, 0) for each in column.tolist())

    def _columns(self, table: str, names: Sequence[str]) -> Columns:
        return self._database.columns(f"rocpd_{table}{self._end}", names)

    def _rows(self, table: str, names: Sequence[str]) -> list[tuple[object, ...]]:
        return self._database.rows(f"rocpd_{table}{self._end}", names)

    def _texts(self, table: str, column: str) -> dict[Any, str]:
        return {row[0]: _text(row[1]) for row in self._rows(table, ("id", column))}

    def _numbers(self, table: str, column: str) -> dict[Any, int]:
        """Numbers by id that fit in the field of bits they are put in."""
        rows = self._rows(table, ("id", column))
        fits = 1 << TID_BITS
        return {row[0]: row[1] for row in rows if isinstance(row[1], int) and 0 <= row[1] < fits}


def _ints(found: Any) -> Ints:
    return np.array(list(found), np.int64)


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""
