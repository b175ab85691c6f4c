"""Parses chunks of events: typed and fast where all is well, event by event where it is not.

Typed decoding with `msgspec` keeps `args` as raw bytes, so that only the categories that need them
pay for them. It refuses what is not valid JSON or not of the expected types; such a chunk is
scanned event by event.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gpuscope.timeline.kineto.chunks import Chunks
from gpuscope.timeline.kineto.records import (
    EMPTY,
    EXACT_US,
    AnyEvent,
    Begin,
    End,
    Event,
    Instant,
    Meta,
    Other,
    Parsed,
    Value,
    exact_nanoseconds,
    nanoseconds,
)
from gpuscope.timeline.kineto.scan import Scan
from gpuscope.timeline.types import Ints


class _Times(msgspec.Struct, gc=False):
    ph: str = ""
    ts: msgspec.Raw = EMPTY
    dur: msgspec.Raw = EMPTY


_EVENTS = msgspec.json.Decoder(list[AnyEvent])
_TIMES = msgspec.json.Decoder(list[_Times])


class Reader:
    """Parses the chunks of one file in turn.

    Attributes:
        cut_off: the last event is incomplete.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._left = b""
        self.cut_off = False

    @property
    def waiting(self) -> bool:
        """Whether the chunk before ended within an event, which the next one goes on with."""
        return bool(self._left)

    def parse(self, chunk: bytes) -> Parsed:
        """The events of one chunk; what the chunk before left incomplete is put before it.

        Args:
            chunk: events with commas between them, in brackets.
        """
        if not self._left:
            parsed = typed(chunk)
            if parsed is not None:
                return parsed
        inner = memoryview(chunk)[1:-1]
        text = b"".join((self._left, b", " if self._left else b"", inner))
        self._left = b""
        return self._slow(text)

    def _slow(self, chunk: bytes) -> Parsed:
        scan = Scan(chunk)
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
        scan = Scan(self._left, last=True)
        scan.run()
        return scan.parsed()


def typed(text: bytes) -> Parsed | None:
    """All events of a chunk at once; None where the chunk needs a closer look.

    Args:
        text: events with commas between them, in brackets.
    """
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


def _sorted(found: Sequence[AnyEvent]) -> tuple[list[Event], list[Other], int]:
    """Complete events, others worth keeping, and how many of the rest are not understood."""
    events = [event for event in found if type(event) is Event]
    rest = [event for event in found if type(event) is not Event]
    kinds = [type(event) for event in rest]
    others: list[Any] = [event for event, kind in zip(rest, kinds, strict=True) if kind in _KEPT]
    return events, others, kinds.count(Begin) + kinds.count(End)


_KEPT = frozenset((Instant, Value, Meta))


def _inexact(values: np.ndarray[Any, np.dtype[np.float64]], text: bytes) -> bool:
    """Whether some double has lost digits of nanoseconds that the text may have.

    A recorder writes all its times with a fraction or none. So either some of the large doubles
    still have one, or, in a few events, all may have lost it: then the text's begin shows it.
    """
    large = values[np.abs(values) >= EXACT_US]
    if not len(large):
        return False
    return bool((large != np.floor(large)).any()) or bool(_FRACTION.search(text, 0, 1 << 16))


_FRACTION = re.compile(rb'"(?:ts|dur)"\s*:\s*-?\d{13,}\.\d')


def _from_text(text: bytes) -> tuple[Ints, Ints]:
    """Times from their decimal text, where doubles are too coarse."""
    rows = [row for row in _TIMES.decode(text) if row.ph == "X"]
    return (
        np.fromiter((exact_nanoseconds(bytes(row.ts)) for row in rows), np.int64, len(rows)),
        np.fromiter((exact_nanoseconds(bytes(row.dur)) for row in rows), np.int64, len(rows)),
    )
