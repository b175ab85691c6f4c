"""One error, understood: its cause, how sure that is, and what to try first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpuscope.document.blocks import Block, Fact
from gpuscope.document.text import Text

Certainty = Literal["certain", "likely", "possible"]

CERTAINTY: Mapping[Certainty, Text] = {
    "certain": Text("certain: the message says so itself"),
    "likely": Text("likely: it follows from the figures in the message"),
    "possible": Text("possible: the usual cause of this message"),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a text says about one error.

    Attributes:
        kind: a stable word ("out_of_memory").
        title: the error in a few words.
        cause: one or two sentences.
        certainty: how sure the cause is.
        tries: what to do, the first thing first.
        line: number of the line that shows it, from 1.
        rank: lower is closer to the root: an error of rank 10 explains one of rank 50.
        facts: figures of the message.
        blocks: tables and charts of them.
        commands: what to type.
        sources: where the meaning is documented.
    """

    kind: str
    title: Text
    cause: Text
    certainty: Certainty
    tries: tuple[Text, ...]
    line: int
    rank: int = 50
    facts: tuple[Fact, ...] = ()
    blocks: tuple[Block, ...] = ()
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
