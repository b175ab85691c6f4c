"""Host threads and device streams of a trace as lanes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuscope.document.text import Text
from gpuscope.timeline.kineto.arguments import plain_arguments
from gpuscope.timeline.kineto.table import Table
from gpuscope.timeline.kineto.vocabulary import SORTS
from gpuscope.timeline.types import Ints, Lane

_ON_DEVICE = (SORTS.index("device"), SORTS.index("on_device"))


@dataclass(frozen=True, slots=True)
class Placed:
    """Lanes, host threads first, with the lane of each row and each row's stream (-1: none)."""

    lanes: tuple[Lane, ...]
    lane: Ints
    stream: Ints


def place(
    table: Table, columns: dict[str, Any], sort: Ints, device: dict[str, Any], rank: int
) -> Placed:
    """Put every row on a lane.

    Device work lies where its `args` say (device and stream), else where its process and thread
    ids say; a host event's `stream` argument says nothing about where it ran.
    """
    on_device = np.isin(sort, _ON_DEVICE)
    values = _place_numbers(table)
    where = np.full(len(sort), -1, np.int64)
    stream = np.full(len(sort), -1, np.int64)
    if len(device["row"]):
        row = device["row"]
        said, of = device["device"], device["stream"]
        where[row] = np.where(said >= 0, said, np.maximum(values[columns["pid"][row]], 0))
        stream[row] = np.where(of >= 0, of, values[columns["tid"][row]])
    lane = np.zeros(len(sort), np.int64)
    threads, places = _threads(table), list(table.places)
    host = np.flatnonzero(~on_device)
    found, lane[host] = _distinct((columns["pid"][host], columns["tid"][host]))
    made = [
        Lane(_host_label(places[process], places[thread], threads), "host", rank, -1)
        for process, thread in found.tolist()
    ]
    work = np.flatnonzero(on_device)
    found, number = _distinct((where[work], stream[work]))
    lane[work] = number + len(made)
    for process, thread in found.tolist():
        label = Text("stream {number}", number=thread) if thread >= 0 else Text("no stream")
        made.append(Lane(label, "stream", rank, process))
    return Placed(tuple(made), lane, stream)


def _distinct(keys: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Distinct rows of some columns in ascending order, and which one each row is."""
    low = [int(key.min(initial=0)) for key in keys]
    span = [int(key.max(initial=0)) - least + 1 for key, least in zip(keys, low, strict=True)]
    if math.prod(span) >= 2**62:
        distinct, inverse = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
        return distinct, inverse.reshape(-1)
    packed = np.zeros(len(keys[0]), np.int64)
    for key, least, size in zip(keys, low, span, strict=True):
        packed *= size
        packed += key - least
    if math.prod(span) > 1 << 22:
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        return np.stack([key[first] for key in keys], axis=1), inverse.reshape(-1)
    first = np.full(math.prod(span), -1, np.int64)  # few: a table is faster than sorting
    first[packed] = np.arange(len(packed))
    there = np.flatnonzero(first >= 0)
    number = np.zeros(len(first), np.int64)
    number[there] = np.arange(len(there))
    return np.stack([key[first[there]] for key in keys], axis=1), number[packed]


def _place_numbers(table: Table) -> Ints:
    """Process and thread ids as numbers; "stream 7" is 7; -1 for other words."""
    return np.array([place_number(value) for value in table.places] or [-1], np.int64)


def place_number(value: int | str | None) -> int:
    """A process or thread id as a number."""
    if isinstance(value, int):
        return value if abs(value) < 1 << 62 else -1
    if value is None:
        return -1
    last = value.rsplit(" ", 1)[-1]
    return int(last) if last.isdecimal() and len(last) < 19 else -1


def _threads(table: Table) -> dict[tuple[Any, Any], str]:
    """Names of threads by process and thread, both as normalised text."""
    return {
        (_id(event.pid), _id(event.tid)): str(plain_arguments(event.args).get("name") or "")
        for event in table.metadata
        if event.name == "thread_name"
    }


def _id(value: int | str | None) -> str:
    return "" if value is None else str(value)


def _host_label(
    pid: int | str | None, tid: int | str | None, threads: dict[tuple[Any, Any], str]
) -> Text:
    """ "host thread 1234 (name)"; the recorder's own overhead is told apart."""
    if pid == -1:
        return Text("profiler overhead")
    title = threads.get((_id(pid), _id(tid)), "")
    inner = re.fullmatch(r"thread -?\d+ \((.*)\)", title)
    title = inner[1] if inner else ("" if re.fullmatch(r"thread -?\d+", title) else title)
    number = place_number(tid)
    word = str(number) if number >= 0 or isinstance(tid, int) else _id(tid)
    if title:
        return Text("host thread {thread} ({title})", thread=word, title=title)
    return Text("host thread {thread}", thread=word)


def used(placed: Placed, kept: npt.NDArray[np.bool_]) -> Placed:
    """Leave out the lanes on which none of the kept rows lies."""
    there = np.zeros(len(placed.lanes), bool)
    there[placed.lane[kept]] = True
    number = np.maximum(np.cumsum(there) - 1, 0)
    lanes = tuple(lane for lane, keep in zip(placed.lanes, there.tolist(), strict=True) if keep)
    lane = number[placed.lane] if len(there) else placed.lane
    return Placed(lanes, lane, placed.stream)
