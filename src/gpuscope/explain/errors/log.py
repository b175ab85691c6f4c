"""A text to read: a message, or a whole log with an error in it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SUSPECT = re.compile(
    r"\b(\w*Error|\w*Exception|FATAL|Traceback|fault|fatal|failed|failure|abort(ed)?|panic"
    r"|core dumped|assert\w*|Xid|segfault|Segmentation|Killed|timed? ?out)\b"
)


class Log:
    """A text with its lines; colours are left out.

    Args:
        text: what was printed.
    """

    def __init__(self, text: str) -> None:
        self.text = _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        self.lines = self.text.split("\n")
        self._starts = [0]
        for line in self.lines[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def search(self, pattern: str) -> re.Match[str] | None:
        """Return the first match of a pattern, upper and lower case alike."""
        return re.search(pattern, self.text, re.IGNORECASE)

    def all(self, pattern: str) -> Iterator[re.Match[str]]:
        """Return every match of a pattern, upper and lower case alike."""
        return re.finditer(pattern, self.text, re.IGNORECASE)

    def line_of(self, found: re.Match[str]) -> int:
        """Return the number of the line of a match, from 1."""
        return bisect.bisect_right(self._starts, found.start())

    def suspects(self, most: int = 12) -> list[tuple[int, str]]:
        """Return the lines that look like an error, with their numbers: the last ones, as what
        ended a program stands at its end."""
        found = [
            (number, line.strip()[:300])
            for number, line in enumerate(self.lines, 1)
            if _SUSPECT.search(line)
        ]
        return found[-most:]
