"""Parses chunks of events: typed and fast where all is well, event by event where it is not.

Typed decoding with `msgspec` keeps `args` as raw bytes, so that only the categories that need them
pay for them. It refuses what is not valid JSON or not of the expected types; then the standard
library's parser, which forgives control characters and bytes that are not UTF-8, takes the chunk
one event at a time and leaves out what is no event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from gpuscope.timeline.kineto.chunks import Chunks, next_event
from gpuscope.timeline.types import Ints

EMPTY = msgspec.Raw(b"{}")
NOTHING = float("nan")

_EXACT_US = float(1 << 43)
"""Below, a double is nearer to a count of nanoseconds than to any other: its unit in the last
place is at most 2^-10 of a microsecond."""

UNUSABLE = np.int64(-(1 << 62))
"""Nanoseconds of a time that is missing, no number or out of range."""

_LIMIT_NS = 4_000_000_000_000_000_000
"""Largest time, 126 years: differences of two and a duration on top stay within 64 bits."""

_LIMIT_US = _LIMIT_NS / 1000


class Event(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event of the file; what it lacks has its default. Times in microseconds."""

    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
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
    pid: int | str | None = None
    tid: int | str | None = None
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


Any_ = Event | Instant | Value | Meta | Begin | End | FlowStart | FlowEnd | FlowStep
Other = Instant | Value | Meta


class _Times(msgspec.Struct, gc=False):
    ph: str = ""
    ts: msgspec.Raw = EMPTY
    dur: msgspec.Raw = EMPTY


_EVENTS = msgspec.json.Decoder(list[Any_])
_TIMES = msgspec.json.Decoder(list[_Times])


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


class Reader:
    """Parses the chunks of one file in turn.

    Attributes:
        cut_off: the last event is incomplete.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._left = b""
        self.cut_off = False

    def parse(self, chunk: bytes) -> Parsed:
        """The events of one chunk; what the chunk before left incomplete is put before it.

        Args:
            chunk: events with commas between them, in brackets.
        """
        if not self._left:
            parsed = _typed(chunk)
            if parsed is not None:
                return parsed
        inner = memoryview(chunk)[1:-1]
        text = b"".join((self._left, b", " if self._left else b"", inner))
        self._left = b""
        return self._slow(text)

    def _slow(self, chunk: bytes) -> Parsed:
        scan = _Scan(chunk)
        scan.run()
        if scan.tail is not None:
            self._chunks.finish(scan.tail)
        self._left = scan.left
        return scan.parsed()

    def last(self) -> Parsed | None:
        """What is left incomplete at the end of the file, as far as it can be used."""
        if not self._left:
            return None
        self.cut_off = True
        scan = _Scan(self._left, last=True)
        scan.run()
        return scan.parsed()


def _typed(text: bytes) -> Parsed | None:
    """All events of a chunk at once; None where the chunk needs a closer look."""
    try:
        found = _EVENTS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    events, others, skipped = _sorted(found)
    count = len(events)
    start = np.fromiter([event.ts for event in events], np.float64, count)
    duration = np.fromiter([event.dur for event in events], np.float64, count)
    if _inexact(start, text) or _inexact(duration, text):
        return Parsed(events, *_from_text(text), others, skipped)
    return Parsed(events, nanoseconds(start), nanoseconds(duration), others, skipped)


def _sorted(found: Sequence[Any_]) -> tuple[list[Event], list[Other], int]:
    """Complete events, others worth keeping, and how many of the rest are not understood."""
    kinds = [type(event) for event in found]
    events = [event for event, kind in zip(found, kinds, strict=True) if kind is Event]
    others: list[Any] = [event for event, kind in zip(found, kinds, strict=True) if kind in _KEPT]
    return cast(list[Event], events), others, kinds.count(Begin) + kinds.count(End)


_KEPT = frozenset((Instant, Value, Meta))


def _inexact(values: np.ndarray[Any, np.dtype[np.float64]], text: bytes) -> bool:
    """Whether some double has lost digits of nanoseconds that the text may have.

    A recorder writes all its times with a fraction or none. So either some of the large doubles
    still have one, or, in a few events, all may have lost it: then the text's begin shows it.
    """
    large = values[np.abs(values) >= _EXACT_US]
    if not len(large):
        return False
    return bool((large != np.floor(large)).any()) or bool(_FRACTION.search(text, 0, 1 << 16))


_FRACTION = re.compile(rb'"(?:ts|dur)"\s*:\s*-?\d{13,}\.\d')


def nanoseconds(values: np.ndarray[Any, np.dtype[np.float64]]) -> Ints:
    """Microseconds as doubles to nanoseconds: the whole part apart, so that products are exact."""
    usable = np.abs(values) < _LIMIT_US
    values = np.where(usable, values, 0.0)
    whole = np.floor(values)
    part = np.rint((values - whole) * 1000.0).astype(np.int64)
    return np.where(usable, whole.astype(np.int64) * 1000 + part, UNUSABLE)


def _from_text(text: bytes) -> tuple[Ints, Ints]:
    """Times from their decimal text, where doubles are too coarse."""
    rows = [row for row in _TIMES.decode(text) if row.ph == "X"]
    return (
        np.fromiter((exact_nanoseconds(bytes(row.ts)) for row in rows), np.int64, len(rows)),
        np.fromiter((exact_nanoseconds(bytes(row.dur)) for row in rows), np.int64, len(rows)),
    )


_NUMBER = re.compile(rb"\s*\"?\s*(-?\d{1,19})(?:\.(\d*))?\s*\"?\s*")


def exact_nanoseconds(text: bytes) -> int:
    """Microseconds in decimal text to the nearest nanosecond; `UNUSABLE` where it is no number."""
    plain = _NUMBER.fullmatch(text)
    if plain and len(plain[2] or b"") <= 3:
        part = int((plain[2] or b"").ljust(3, b"0"))
        whole = int(plain[1]) * 1000
        value = whole - part if plain[1].startswith(b"-") else whole + part
        return value if abs(value) < _LIMIT_NS else int(UNUSABLE)
    return _decimal_nanoseconds(text.decode("ascii", "replace").strip().strip('"'))


def _decimal_nanoseconds(text: str) -> int:
    try:
        value = Decimal(text)
    except ArithmeticError:
        return int(UNUSABLE)
    if not value.is_finite() or abs(value) >= Decimal(_LIMIT_US):
        return int(UNUSABLE)
    return round(value * 1000)


# -- event by event -------------------------------------------------------------------------------

_JSON = json.JSONDecoder(strict=False, parse_float=Decimal, parse_int=Decimal)
_SPACE = re.compile(r"[\s\0]*")
_LONGEST_EVENT = 64 << 20
"""Bytes of an event beyond which it is taken for damage."""


class _Scan:
    """Reads the objects of a chunk one by one."""

    def __init__(self, chunk: bytes, *, last: bool = False) -> None:
        self._bytes = chunk
        self._text = chunk.decode("latin-1")  # one character a byte, so that places agree
        self._last = last
        self._found: list[Event] = []
        self._others: list[Other] = []
        self._times: list[tuple[int, int]] = []
        self.skipped = 0
        self.left = b""
        self.tail: bytes | None = None

    def parsed(self) -> Parsed:
        times = np.array(self._times, np.int64).reshape(-1, 2)
        return Parsed(self._found, times[:, 0], times[:, 1], self._others, self.skipped)

    def run(self) -> None:
        at, text = 0, self._text
        while True:
            at = self._separator(at)
            if at >= len(text):
                return
            if text[at] == "]":
                self.tail = self._bytes[at + 1 :]
                return
            try:
                value, end = _JSON.raw_decode(text, at)
            except (RecursionError, ValueError) as error:
                if self._runs_on(at, error):
                    self.left = self._bytes[at:]
                    return
                self.skipped += 1
                following = next_event(self._bytes, at + 1)
                if following is None:
                    return
                at = following
                continue
            self._take(value)
            at = end

    def _separator(self, at: int) -> int:
        """Over white space, and the comma between two events."""
        while True:
            found = _SPACE.match(self._text, at)
            at = found.end() if found else at
            if at < len(self._text) and self._text[at] == ",":
                at += 1
                continue
            return at

    def _runs_on(self, at: int, error: Exception) -> bool:
        """Whether the event at this place goes on after the chunk, so that more text is needed."""
        if self._last or len(self._bytes) - at > _LONGEST_EVENT:
            return False
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip()) - 8

    def _take(self, value: object) -> None:
        event = _event(value) if isinstance(value, dict) else None
        if event is None or isinstance(event, Begin | End):
            self.skipped += 1
        elif isinstance(event, Event):
            self._found.append(event)
            record = cast(dict[str, object], value)
            self._times.append((_time(record.get("ts")), _time(record.get("dur"))))
        elif isinstance(event, Instant | Value | Meta):
            self._others.append(event)


_BY_PHASE: dict[str, type[msgspec.Struct]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Event, Instant, Value, Meta, Begin, End, FlowStart, FlowEnd, FlowStep)
}


def _event(record: dict[str, object]) -> msgspec.Struct | None:
    """An event from a parsed object; None where it has no phase."""
    phase = record.get("ph")
    if not isinstance(phase, str):
        return None
    kind = _BY_PHASE.get(phase, FlowStep)
    args = record.get("args")
    ts = _time(record.get("ts"))
    known: dict[str, Any] = {
        "cat": _word(record.get("cat")),
        "name": _word(record.get("name")),
        "pid": _place(record.get("pid")),
        "tid": _place(record.get("tid")),
        "ts": ts / 1000 if ts != UNUSABLE else NOTHING,
    }
    if isinstance(args, dict):
        known["args"] = msgspec.Raw(json.dumps(_utf8(args), default=_plain).encode())
    return kind(**{name: known[name] for name in kind.__struct_fields__ if name in known})


def _word(value: object) -> str:
    return cast(str, _utf8(value)) if isinstance(value, str) else ""


def _utf8(value: object) -> object:
    """Text as it was before each of its bytes was read as one character."""
    if isinstance(value, str):
        try:
            return value.encode("latin-1").decode("utf-8", "replace")
        except UnicodeEncodeError:
            return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {str(_utf8(key)): _utf8(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_utf8(item) for item in value]
    return value


def _plain(value: object) -> object:
    if isinstance(value, Decimal) and value.is_finite():
        return (
            int(value)
            if value == value.to_integral_value() and abs(value) < 2**63
            else float(value)
        )
    return None


def _place(value: object) -> int | str | None:
    if isinstance(value, Decimal) and value.is_finite() and abs(value) < 2**63:
        return int(value)
    return _word(value) if isinstance(value, str) else None


def _time(value: object) -> int:
    if isinstance(value, Decimal):
        return _decimal_nanoseconds(str(value))
    if isinstance(value, str):
        return exact_nanoseconds(value.encode("utf-8", "replace"))
    return int(UNUSABLE)


# -- arguments ------------------------------------------------------------------------------------

T = TypeVar("T", bound=msgspec.Struct)


class Arguments:
    """Parses the `args` of many events into one type.

    Args:
        kind: a struct all of whose fields have defaults.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._one = msgspec.json.Decoder(kind)

    def decode(self, raws: Sequence[msgspec.Raw]) -> list[Any]:
        """One struct each; a value of a wrong type counts as missing."""
        try:
            found: list[Any] = self._many.decode(b"".join((b"[", b",".join(raws), b"]")))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return [self._lenient(raw) for raw in raws]
        return found

    def _lenient(self, raw: msgspec.Raw) -> Any:
        try:
            return self._one.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        record = plain_arguments(raw)
        found = self._kind()
        for field in msgspec.structs.fields(self._kind):
            if field.encode_name in record:
                try:
                    value = msgspec.convert(record[field.encode_name], field.type, strict=False)
                except msgspec.ValidationError:
                    continue
                setattr(found, field.name, value)
        return found


def plain_arguments(raw: msgspec.Raw) -> dict[str, Any]:
    """The `args` of one event as a dictionary; empty where they are none."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            value = json.loads(bytes(raw).decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
