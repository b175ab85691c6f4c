"""How examples of different lengths come to lie in rows, and what a micro-batch of them is.

Padded, a row is an example, and all rows of a micro-batch are as long as its longest; all devices
wait for the longest of theirs. Packed, rows of `seq` tokens are filled with whole examples: each,
the longest first, goes where it leaves least room ("bfd" of TRL's `pack_dataset`: best fit,
decreasing). What is longer than a row is cut.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError
from gpuscope.outside.plain import file_bytes

__all__ = ["PACKINGS", "Rows", "lengths_of", "packing_named", "rows_of"]

PACKINGS = ("padded", "flash", "mask")
"""How examples lie in a row: one, padded; several, attention kept apart by FlashAttention's kernel
for lengths that vary, or by a mask."""

_TAKEN = 4000
"""Examples that stand for all: as many are drawn, or taken evenly from the lengths of a file."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What rows are like.

    Attributes:
        packing: one of `PACKINGS`.
        typical: tokens of a row of the usual micro-batch: what time follows.
        longest: of the longest that comes: what memory must hold.
        examples: in a row, on average.
        sequences: how many equal ones in a row do as much work in attention.
        filled: share of the usual micro-batch's tokens that belong to an example.
        together: rows that wait for the longest of them; 0 where that does not matter.
    """

    packing: str
    typical: int
    longest: int
    examples: float
    sequences: float
    filled: float
    together: int = 0

    def masked(self, batch: int) -> bool:
        """Whether attention of `batch` rows gets a mask."""
        return self.packing == "mask" or (self.packing == "padded" and batch > 1)

    @property
    def notes(self) -> tuple[Text, ...]:
        """What the usual micro-batch stands for, and what it does not show."""
        usual = Text(
            "Rows of {typical} tokens are those of the usual micro-batch: {filled} of them are "
            "examples'.",
            typical=Number(self.typical, ","),
            filled=Percent(self.filled),
        )
        if self.longest <= self.typical:
            return (usual,)
        peak = Text(
            "The longest row that comes has {longest} tokens, and its micro-batch the highest "
            "peak: type --seq {longest} without lengths.",
            longest=self.longest,
        )
        return usual, peak

    def at(self, seq: int) -> Rows:
        """One of `seq` tokens, without what no capture depends on."""
        return replace(self, typical=seq, longest=seq, examples=1.0, filled=1.0, together=0)


def packing_named(text: str) -> str:
    """The same word.

    Raises:
        UnknownNameError: none of `PACKINGS`.
    """
    if text not in PACKINGS:
        choice = Text("Type one of: {names}.", names=", ".join(PACKINGS))
        raise UnknownNameError(Text("packing"), text, PACKINGS, choice)
    return text


def lengths_of(text: str | Sequence[int]) -> tuple[int, ...]:
    """Tokens of examples, the shortest first: a distribution as `serve` takes it, or a file's.

    Args:
        text: "512", "256..2048", "lognormal:400,0.8", a file with one number a line, or numbers.

    Raises:
        InvalidValueError: none of these.
        InputFileError: the file holds something else.
    """
    # Here, so that who names no lengths does not wait for NumPy.
    import numpy as np

    from gpuscope.program.lengths import MOST_TOKENS, parse_lengths

    if not isinstance(text, str):
        found = list(text)
        if not found or not all(isinstance(n, int) and 1 <= n <= MOST_TOKENS for n in found):
            raise InvalidValueError(
                Text("These are no lengths of examples."),
                Text("There is none, or one that no example has."),
                Text("Give whole numbers of tokens: [512, 96, 1800]"),
            )
        return _evenly(found)
    path = Path(text)
    try:
        named = path.is_file()
    except (OSError, ValueError):  # too long, or a zero byte in it
        named = False
    if named:
        return _evenly(_read(path, MOST_TOKENS))
    return _evenly(parse_lengths(text).draw(_TAKEN, np.random.default_rng(0)).tolist())


def _evenly(found: list[int]) -> tuple[int, ...]:
    ordered = sorted(found)
    step = max(1.0, len(ordered) / _TAKEN)
    count = round(len(ordered) / step)
    return tuple(ordered[int((n + 0.5) * step)] for n in range(count))


def _read(path: Path, most: int) -> list[int]:
    again = Text("Write one number of tokens a line.")
    what = Text("{path} holds no lengths of examples.", path=path)
    try:
        words = file_bytes(path).decode("utf-8-sig").split()
    except (OSError, UnicodeDecodeError, MisfitError) as error:
        raise InputFileError(what, str(error), again) from error
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 12):
            raise InputFileError(what, Text("'{text}' is no number of tokens.", text=word), again)
    found = [int(word) for word in words]
    if not found or not all(1 <= each <= most for each in found):
        raise InputFileError(what, Text("There is none, or one that no example has."), again)
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
        return Rows(packing, round(typical), cut[-1], 1.0, 1.0, mean / typical, together)
    rows = _packed(cut, seq)
    pairs = sum(each * each for each in cut) / rows  # of a row, on average
    filled = sum(cut) / (rows * seq)
    return Rows(packing, seq, seq, count / rows, max(1.0, seq * seq / pairs), filled)


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
