"""A text to read: a message, or a whole log with an error in it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SUSPECT = re.compile(
    r"\b(\w*Error|\w*Exception|FATAL|Traceback|fault|fatal|failed|failure|abort(ed)?|panic"
    r"|core dumped|assert\w*|Xid|segfault|Segmentation|Killed|timed? ?out)\b"
)


_WORTH = re.compile(
    r"err|fail|fault|fatal|exception|abort|assert|kill|signal|xid|nccl|cuda|cudnn|cublas|hip\b|hip[EO]"
    r"|rocm|nvml|driver|memory|out of|oom|torch|triton|\.so\b|tim(?:ed|e) "
    r"?out|cannot|exit|died|stat"
    r"|mismatch|bus|recompil|worker|port|seq",
    re.IGNORECASE,
)
"""What a line about an error holds: of a long log only such lines and their neighbours are read."""

_LONG = 512 * 1024
_NEIGHBOURS = 4


class Log:
    """A text with its lines; colours are left out.

    Of a text of more than half a MiB only the lines that could tell of an error are searched.

    Args:
        text: what was printed.
    """

    def __init__(self, text: str) -> None:
        whole = _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        self.lines = whole.split("\n")
        self._numbers: Sequence[int] = range(1, len(self.lines) + 1)
        self.text = whole
        if len(whole) > _LONG:
            self._numbers = _worth(self.lines)
            self.text = "\n".join(self.lines[number - 1] for number in self._numbers)
        self._starts = [0]
        for number in self._numbers[:-1]:
            self._starts.append(self._starts[-1] + len(self.lines[number - 1]) + 1)

    def search(self, pattern: str) -> re.Match[str] | None:
        """Return the first match of a pattern, upper and lower case alike."""
        return re.search(pattern, self.text, re.IGNORECASE)

    def all(self, pattern: str) -> Iterator[re.Match[str]]:
        """Return every match of a pattern, upper and lower case alike."""
        return re.finditer(pattern, self.text, re.IGNORECASE)

    def line_of(self, found: re.Match[str]) -> int:
        """Return the number of the line of a match, from 1."""
        at = bisect.bisect_right(self._starts, found.start()) - 1
        return self._numbers[at] if self._numbers else 1

    def suspects(self, most: int = 12) -> list[tuple[int, str]]:
        """Return the lines that look like an error, with their numbers: the last ones, as what
        ended a program stands at its end."""
        found = [
            (number, line.strip()[:300])
            for number, line in enumerate(self.lines, 1)
            if _SUSPECT.search(line)
        ]
        return found[-most:]


def _worth(lines: Sequence[str]) -> list[int]:
    """Numbers of the lines that could tell of an error, and of those around them."""
    kept: set[int] = set()
    for at, line in enumerate(lines):
        if _WORTH.search(line):
            kept.update(range(max(0, at - _NEIGHBOURS), min(len(lines), at + _NEIGHBOURS + 1)))
    return [at + 1 for at in sorted(kept)]
