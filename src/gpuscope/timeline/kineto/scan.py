"""Reads damaged or unusual pieces of a trace one event at a time, and leaves out what is none.

The standard library's parser forgives control characters and, with each byte read as one
character, bytes that are not UTF-8. Where it fails, the scan goes on at the next event.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, cast

import msgspec
import numpy as np

from gpuscope.timeline.kineto.chunks import LONGEST_EVENT, next_event
from gpuscope.timeline.kineto.records import (
    NOTHING,
    UNUSABLE,
    Begin,
    End,
    Event,
    FlowEnd,
    FlowStart,
    FlowStep,
    Instant,
    Meta,
    Other,
    Parsed,
    Value,
    decimal_nanoseconds,
    exact_nanoseconds,
)

_JSON = json.JSONDecoder(strict=False, parse_float=Decimal, parse_int=Decimal)
_SPACE = re.compile(r"[\s\0]*")
_BEHIND = 1 << 16

_IN_VAIN = 4096
"""Characters that could be parsed in the time that a failure takes."""

_MOST_AGAIN = 16
"""How many times over a chunk may be parsed in vain: text can be made in which every event seems to
go on for long and none ends."""


class Scan:
    """Reads the objects of a chunk one by one.

    Args:
        chunk: events with commas between them.
        last: nothing follows, so that an event that does not end here never will.

    Attributes:
        skipped: pieces of text that are no event, or of a sort that is not used.
        left: the begin of an event that goes on after the chunk.
        tail: what follows the end of the list of events, where it was reached.
    """

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
        """What `run` found."""
        times = np.array(self._times, np.int64).reshape(-1, 2)
        return Parsed(self._found, times[:, 0], times[:, 1], self._others, self.skipped)

    def run(self) -> None:
        """Read to the end of the chunk or of the list of events, whichever comes first."""
        at = 0
        vain = _MOST_AGAIN * len(self._text) + (1 << 20)
        while True:
            if at > _BEHIND:
                self._drop(at)
                at = 0
            text = self._text
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
                vain -= getattr(error, "pos", len(text)) - at + _IN_VAIN
                following = next_event(self._bytes, at + 1)
                if following is None or vain < 0:
                    return
                at = following
                continue
            self._take(value)
            at = end

    def _drop(self, end: int) -> None:
        """Forget what was read: an error of the parser counts the lines before its place."""
        self._bytes, self._text = self._bytes[end:], self._text[end:]

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
        if self._last or len(self._bytes) - at > LONGEST_EVENT:
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
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    if value.copy_abs() < 2**63 and value == value.to_integral_value():
        return int(value)
    return float(value)


def _place(value: object) -> int | str | None:
    if isinstance(value, Decimal) and value.is_finite() and value.copy_abs() < 2**63:
        return int(value)
    return _word(value) if isinstance(value, str) else None


def _time(value: object) -> int:
    if isinstance(value, Decimal):
        return decimal_nanoseconds(str(value))
    if isinstance(value, str):
        return exact_nanoseconds(value.encode("utf-8", "replace"))
    return int(UNUSABLE)
