"""Names made of tokens joined by "_": a list of rules reads them one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuscope.document.text import Text
from gpuscope.explanation.kernel_names.types import Piece

_GROUP_NAME = re.compile(r"\?P<\w+>")


class Rule(NamedTuple):
    """A token and what it means; mostly an entry of a table (see `tables`).

    Attributes:
        pattern: of the whole token; "_" in it takes several tokens.
        field: of `FIELDS`.
        meaning: makes the words from the match.
        certain: as `Piece.certain`.
    """

    pattern: str
    field: str
    meaning: Callable[[re.Match[str]], Text]
    certain: bool = True


def read_tokens(text: str, rules: Sequence[Rule]) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """Return the pieces of a name, and the tokens that no rule knows.

    Rules are tried in order; one whose pattern spans several tokens takes them all.
    """
    pieces: list[Piece] = []
    unread: list[str] = []
    left = [token for token in text.split("_") if token]
    while left:
        taken = 0
        for rule in rules:
            found, taken = _match(rule, left)
            if found is not None:
                pieces.append(Piece(found[0], rule.field, rule.meaning(found), rule.certain))
                break
        if not taken:
            unread.append(left[0])
        left = left[max(1, taken) :]
    return tuple(pieces), tuple(unread)


def _match(rule: Rule, left: list[str]) -> tuple[re.Match[str] | None, int]:
    span = _GROUP_NAME.sub("", rule.pattern).count("_") + 1
    found = re.fullmatch(rule.pattern, "_".join(left[:span]))
    return (found, span) if found else (None, 0)
