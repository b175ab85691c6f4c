"""How examples of different lengths come to lie in rows, and what a micro-batch of them is.

Padded, a row is an example, and all rows of a micro-batch are as long as its longest; all devices
wait for the longest of theirs. Packed, rows of `seq` tokens are filled with whole examples: each,
the longest first, goes where it leaves least room ("bfd" of TRL's `pack_dataset`: best fit,
decreasing). What is longer than a row is cut.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError
from gpuscope.outside.plain import file_bytes
from gpuscope.serving.lengths import parse_lengths
from gpuscope.serving.requests import MOST_TOKENS

__all__ = ["Rows", "lengths_of", "rows_of"]

_TAKEN = 4000
"""Examples that stand for all: as many are drawn, or taken evenly from the lengths of a file."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What rows are like.

    Attributes:
        typical: tokens of a row of the usual micro-batch: what time follows.
        longest: of the longest that comes: what memory must hold.
        examples: in a row, on average.
        sequences: how many equal ones in a row do as much work in attention.
        filled: share of the usual micro-batch's tokens that belong to an example.
    """

    typical: int
    longest: int
    examples: float
    sequences: float
    filled: float


def lengths_of(text: str) -> tuple[int, ...]:
    """Tokens of examples, the shortest first: a distribution as `serve` takes it, or a file's.

    Args:
        text: "512", "256..2048", "lognormal:400,0.8", or a file with one number a line.

    Raises:
        InvalidValueError: none of these.
        InputFileError: the file holds something else.
    """
    path = Path(text)
    try:
        named = path.is_file()
    except (OSError, ValueError):  # too long, or a zero byte in it
        named = False
    if named:
        found = _read(path)
    else:
        found = parse_lengths(text).draw(_TAKEN, np.random.default_rng(0)).tolist()
    ordered = sorted(found)
    step = max(1.0, len(ordered) / _TAKEN)
    count = round(len(ordered) / step)
    return tuple(ordered[int((n + 0.5) * step)] for n in range(count))


def _read(path: Path) -> list[int]:
    again = Text("Write one number of tokens a line.")
    try:
        found = [int(word) for word in file_bytes(path).decode("utf-8-sig").split()]
    except (OSError, UnicodeDecodeError, ValueError, MisfitError) as error:
        raise InputFileError(
            Text("{path} holds no lengths of examples.", path=path), str(error), again
        ) from error
    if not found or not all(1 <= each <= MOST_TOKENS for each in found):
        raise InputFileError(
            Text("{path} holds no lengths of examples.", path=path),
            Text("There is none, or one that no example has."),
            again,
        )
    return found


def rows_of(lengths: Sequence[int], seq: int, packing: str, together: int) -> Rows:
    """Rows of examples.

    Args:
        lengths: of examples that stand for all, the shortest first.
        seq: most tokens of a row.
        packing: "padded", or any way to pack.
        together: rows of a micro-batch on all devices, which wait for the longest of them.
    """
    cut = [min(each, seq) for each in lengths]
    mean, count = sum(cut) / len(cut), len(cut)
    if packing == "padded":
        # The longest of so many drawn at random, on average.
        below = [(n / count) ** together for n in range(count + 1)]
        typical = sum(each * (below[n + 1] - below[n]) for n, each in enumerate(cut))
        return Rows(round(typical), cut[-1], 1.0, 1.0, mean / typical)
    rows = _packed(cut, seq)
    pairs = sum(each * each for each in cut) / rows  # of a row, on average
    filled = sum(cut) / (rows * seq)
    return Rows(seq, seq, count / rows, max(1.0, seq * seq / pairs), filled)


def _packed(lengths: Sequence[int], seq: int) -> int:
    """Rows that best fit, decreasing, takes."""
    rooms: list[int] = []  # what is left in open rows, the fullest first
    rows = 0
    for each in reversed(lengths):
        place = bisect_left(rooms, each)
        if place == len(rooms):
            rows, left = rows + 1, seq - each
        else:
            left = rooms.pop(place) - each
        if left:
            insort(rooms, left)
    return rows
