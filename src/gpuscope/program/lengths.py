"""How long prompts, answers or examples are: one number, a range, or a distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

MOST_TOKENS = 100_000_000
"""Of one request or example; more is a mistake, and sums stay whole numbers."""

_FORM = re.compile(
    r"^(?:(?P<one>\d+)|(?P<low>\d+)\.\.(?P<high>\d+)"
    r"|lognormal:(?P<mean>\d+),(?P<sigma>\d*\.?\d+))$"
)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts.

    Attributes:
        kind: "fixed" (always `a`), "uniform" (`a` to `b`, both included) or "lognormal" (mean `a`,
            sigma of the logarithm `b`: chats are about 0.8 to 1.2).
        a, b: see `kind`.
    """

    kind: Literal["fixed", "uniform", "lognormal"]
    a: float
    b: float = 0.0

    def draw(self, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """That many token counts, 1 or more each."""
        if self.kind == "fixed":
            return np.full(count, int(self.a), np.int64)
        if self.kind == "uniform":
            return random.integers(int(self.a), int(self.b) + 1, count)
        drawn = random.lognormal(np.log(self.a) - self.b**2 / 2, self.b, count)
        return np.clip(np.rint(drawn), 1, MOST_TOKENS).astype(np.int64)

    @property
    def mean(self) -> float:
        """Tokens, on average."""
        return (self.a + self.b) / 2 if self.kind == "uniform" else self.a


def parse_lengths(text: str) -> Lengths:
    """Read "1024", "256..2048" or "lognormal:1024,0.8".

    Raises:
        InvalidValueError: something else, or a length that cannot be.
    """
    found = _FORM.match(text.strip().lower())
    if found is not None:
        if found["one"]:
            made = Lengths("fixed", int(found["one"]))
        elif found["low"]:
            made = Lengths("uniform", int(found["low"]), int(found["high"]))
        else:
            made = Lengths("lognormal", int(found["mean"]), float(found["sigma"]))
        high = made.b if made.kind == "uniform" else made.a
        if 1 <= made.a <= high <= MOST_TOKENS and (made.kind != "lognormal" or made.b <= 4):
            return made
    raise InvalidValueError(
        Text("'{text}' is no number of tokens.", text=text),
        Text("It is one number, a range, or a distribution by its mean and its spread."),
        Text("Type: 1024, or 256..2048, or lognormal:1024,0.8"),
    )


def answer_and_file(answer: str, output: Path | None) -> tuple[str, Path | None]:
    """Length of the answers and the file to save, of `--answer` and `--output`.

    `--output` names a file in every verb; people write `--output 256` beside `--input 1024`, too.
    """
    if output is not None and _FORM.match(str(output)):
        return str(output), None
    return answer, output
