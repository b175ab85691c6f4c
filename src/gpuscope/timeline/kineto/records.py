"""The events of a trace file as they are parsed, and their times as exact nanoseconds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from gpuscope.timeline.types import Ints

EMPTY = msgspec.Raw(b"{}")
NOTHING = float("nan")

EXACT_US = float(1 << 43)
"""Below, a double is nearer to a count of nanoseconds than to any other: its unit in the last
place is at most 2^-10 of a microsecond."""

UNUSABLE = np.int64(-(1 << 62))
"""Nanoseconds of a time that is missing, no number or out of range."""

_LIMIT_NS = 4_000_000_000_000_000_000
"""Largest time, 126 years: differences of two and a duration on top stay within 64 bits."""

_LIMIT_US = _LIMIT_NS / 1000


Place: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str | None
"""A process or a thread. Numbers of any length could be made whose hashes are all equal."""


class Event(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event of the file; what it lacks has its default. Times in microseconds."""

    cat: str = ""
    name: str = ""
    pid: Place = None
    tid: Place = None
    ts: float = NOTHING
    dur: float = NOTHING
    args: msgspec.Raw = EMPTY


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    """Something that has no length, such as a `[memory]` mark of the allocator."""

    cat: str = ""
    name: str = ""
    ts: float = NOTHING
    args: msgspec.Raw = EMPTY


class Value(msgspec.Struct, gc=False, tag_field="ph", tag="C"):
    """A point of a counter."""

    cat: str = ""
    name: str = ""
    ts: float = NOTHING
    args: msgspec.Raw = EMPTY


class Meta(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """A name of a process or thread."""

    name: str = ""
    pid: Place = None
    tid: Place = None
    args: msgspec.Raw = EMPTY


class Begin(msgspec.Struct, gc=False, tag_field="ph", tag="B"):
    """The begin of an event whose end comes apart: not written by Kineto, not used."""


class End(msgspec.Struct, gc=False, tag_field="ph", tag="E"):
    """The end of such an event."""


class FlowStart(msgspec.Struct, gc=False, tag_field="ph", tag="s"):
    """An arrow's begin. Arrows say what correlations and sequence numbers say too."""


class FlowEnd(msgspec.Struct, gc=False, tag_field="ph", tag="f"):
    """An arrow's end."""


class FlowStep(msgspec.Struct, gc=False, tag_field="ph", tag="t"):
    """A point of an arrow between its ends."""


AnyEvent = Event | Instant | Value | Meta | Begin | End | FlowStart | FlowEnd | FlowStep
Other = Instant | Value | Meta


@dataclass(frozen=True, slots=True)
class Parsed:
    """Events of one chunk.

    Attributes:
        events: the complete ones, in the file's order.
        start_ns, duration_ns: theirs, exact; `UNUSABLE` where the file has no usable number.
        others: instants, counters and metadata, in the file's order.
        skipped: pieces of text that are no event, or of a sort that is not used.
    """

    events: list[Event]
    start_ns: Ints
    duration_ns: Ints
    others: list[Other]
    skipped: int = 0


def nanoseconds(values: np.ndarray[Any, np.dtype[np.float64]]) -> Ints:
    """Microseconds as doubles to nanoseconds: the whole part apart, so that products are exact."""
    usable = np.abs(values) < _LIMIT_US
    values = np.where(usable, values, 0.0)
    whole = np.floor(values)
    part = np.rint((values - whole) * 1000.0).astype(np.int64)
    return np.where(usable, whole.astype(np.int64) * 1000 + part, UNUSABLE)


_NUMBER = re.compile(rb"\s*\"?\s*(-?\d{1,19})(?:\.(\d*))?\s*\"?\s*")


def exact_nanoseconds(text: bytes) -> int:
    """Microseconds in decimal text to the nearest nanosecond; `UNUSABLE` where it is no number."""
    plain = _NUMBER.fullmatch(text)
    if plain and len(plain[2] or b"") <= 3:
        part = int((plain[2] or b"").ljust(3, b"0"))
        whole = int(plain[1]) * 1000
        value = whole - part if plain[1].startswith(b"-") else whole + part
        return value if abs(value) < _LIMIT_NS else int(UNUSABLE)
    return decimal_nanoseconds(text.decode("ascii", "replace").strip().strip('"'))


def decimal_nanoseconds(text: str) -> int:
    """Microseconds as any decimal number to the nearest nanosecond, or `UNUSABLE`."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        return int(UNUSABLE)
    if not value.is_finite() or value.copy_abs() >= Decimal(_LIMIT_US):
        return int(UNUSABLE)
    return round(value * 1000)
