"""Where a line may break: between words, between Chinese characters, never inside a quantity.

A number stays with its unit ("15.9 ms") or the character behind it, a sign with its number
("< 0.1 %"); no line begins with a closing mark or ends with an opening one. The terminal and the
pictures break by these rules; a browser has its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

_NOT_FIRST = frozenset("，。；：、？！）】》」』〉”’…—～·%‰℃)]},.;:!?°×")
_NOT_LAST = frozenset("（【《「『〈“‘([{$¥#")
_SIGNS = frozenset("<>≤≥±≈~−+")

_UNIT = re.compile(
    r"(?:%|×|°C|[kMGTPEmµn]?(?:s|B|B/s|FLOP|FLOP/s|OP/s|Hz|W|Wh|J|bit/s)|[KMGTP]iB|FLOP/B)(?![\w/])"
)


def columns(text: str) -> int:
    """Return how many cells of a terminal a text takes; a Chinese character takes two."""
    return sum(2 if _wide(letter) else not unicodedata.combining(letter) for letter in text)


def breaks(text: str) -> Iterator[int]:
    """Yield the places where a line may end: before the character of that index."""
    for at in range(1, len(text)):
        before, after = text[at - 1], text[at]
        if after.isspace():
            continue
        if before.isspace():
            if not _holds_together(text[:at].rstrip()[-1:], text, at):
                yield at
        elif (
            (_wide(before) or _wide(after))
            and after not in _NOT_FIRST
            and before not in _NOT_LAST
            and not (before.isdigit() and after.isalpha())
        ):
            yield at


def line_ends(text: str, width: int) -> list[int]:
    """Return where to break a text so that no line is wider, if no word is."""
    found: list[int] = []
    begin = last = 0
    for at in (*breaks(text), len(text)):
        if last > begin and columns(text[begin:at].rstrip()) > width:
            found.append(last)
            begin = last
        last = at
    return found


def broken(text: str, width: int) -> list[str]:
    """Return a text as lines of at most so many cells; a longer word is left whole."""
    ends = [0, *line_ends(text, width), len(text)]
    return [text[a:b].strip() for a, b in pairwise(ends)]


def _holds_together(before: str, text: str, at: int) -> bool:
    """Whether a space stands inside a quantity."""
    after = text[at]
    if before in _SIGNS:
        return after.isdigit() or after == "$"
    return before.isdigit() and (_UNIT.match(text, at) is not None or _is_han(after))


def _wide(letter: str) -> bool:
    return letter > "\u02ff" and unicodedata.east_asian_width(letter) in "WF"


def _is_han(letter: str) -> bool:
    return _wide(letter) and letter.isalpha()
