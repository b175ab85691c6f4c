"""Cuts a trace's text into chunks of whole events, and what lies around them.

Bytes are searched, not parsed: a chunk is cut where one object ends and the next begins with a key
that events begin with. Inside a string such a place cannot be (its quotes would be escaped); in an
object within an event it can, but then the chunk does not parse, and whoever parses it goes on
event by event (see `decode`).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError

_BLOCK = 8 << 20

_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|ts|tid|args|dur)"\s*:)')
"""Between two events."""

_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_HEAD_LIMIT = 16 << 20
_TAIL_LIMIT = 16 << 20
"""What stands around the events is a few kilobytes; of thousands of ranks, a few megabytes."""

LONGEST_EVENT = 16 << 20
"""Bytes of an event beyond which it is taken for damage."""


class Chunks:
    """Iterates over chunks of a trace's events: lists of whole objects, as JSON.

    The reader of a chunk says with `finish` where the list of events ended.

    Attributes:
        path: the file's.
        head: what comes before the events; empty where the file is nothing but their list.
        tail: what comes after them.
        before: the text between the chunk that came last and the one before it.
        ended: the end of the list of events was seen.
    """

    def __init__(self, blocks: Iterable[bytes], path: str | Path) -> None:
        self._blocks = blocks
        self.path = path
        self.head = b""
        self.tail = b""
        self.before = b""
        self.ended = False

    def finish(self, rest: bytes) -> None:
        """Say that the list ended: `rest` and all that follows belongs to the tail."""
        self.ended = True
        self.tail = rest[: 2 * _TAIL_LIMIT]

    def keep(self, text: bytes) -> None:
        """Put text to the end of the tail."""
        if text and len(self.tail) < _TAIL_LIMIT:
            self.tail += text[:_TAIL_LIMIT]

    def __iter__(self) -> Generator[bytes, None, None]:
        """Yield chunks, each in brackets; the last one is whatever is left.

        Raises:
            InputFileError: the text has no list of events.
        """
        blocks = iter(self._blocks)
        rest, block = b"", self._open(blocks)
        between = b""
        while True:
            cut = _last_cut(block)
            if cut is None:  # one event is longer than the block, or begins where it ends
                rest, block = b"", rest + block
                cut = _last_cut(block)
            if cut:
                chunk = b"".join((b"[", rest, memoryview(block)[: cut[0]], b"]"))
                self.before = between
                between, rest = block[cut[0] : cut[1]], block[cut[1] :]
                yield chunk
                if self.ended:  # the cut was not between events, but in what follows them
                    rest = between + rest
                    break
            else:
                rest = block
            if len(rest) > LONGEST_EVENT + _BLOCK:
                rest = rest[-_BLOCK:]  # whoever parses it goes on at the next event
            following = next(blocks, None)
            if following is None:
                break
            block = following
        if rest and not self.ended:
            self.before = between
            yield b"".join((b"[", rest, b"]"))
            rest = b""
        self.keep(rest)
        for block in blocks:
            self.keep(block)

    def _open(self, blocks: Iterator[bytes]) -> bytes:
        """Read as far as the list's begin; returns what follows it."""
        start = b""
        for block in blocks:
            start += block
            text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
            if text[:1] == b"[":
                return text[1:]
            if text and text[:1] != b"{":
                break
            found = _BEGIN.search(text)
            if found:
                self.head = text[: found.start()]
                return text[found.end() :]
            if len(start) > _HEAD_LIMIT:
                break
        raise self._not_a_trace(start)

    def _not_a_trace(self, start: bytes) -> InputFileError:
        if not start.strip(b"\0 \t\r\n"):
            return InputFileError(
                Text("{path} is empty.", path=self.path),
                Text("The recording was not written to its end."),
                Text("Record it again, or name another file."),
            )
        why = (
            Text('It is JSON, but has no list "traceEvents".')
            if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
            else Text("It is not JSON.")
        )
        return InputFileError(
            Text("{path} is not a trace.", path=self.path),
            why,
            Text("Record one with torch.profiler (export_chrome_trace), or name another file."),
        )


def _last_cut(text: bytes) -> tuple[int, int] | None:
    """Where the last object that is followed by an event ends, and where that event begins."""
    window = 1 << 14
    while True:
        low = max(0, len(text) - window)
        found = None
        for found in _BETWEEN.finditer(text, low):  # noqa: B007
            pass
        if found is not None:
            return found.start() + 1, found.end()
        if low == 0:
            return None
        window *= 8


def next_event(text: bytes, position: int) -> int | None:
    """Where the next event after `position` seems to begin; None where there is none."""
    found = _BETWEEN.search(text, position)
    return found.end() if found else None
