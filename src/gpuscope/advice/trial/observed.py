"""What a variant's first steps gave: plain numbers that can be held against another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Observed", "Value"]

Value = tuple[float, ...] | None
"""One quantity of one step: a number, samples of a tensor, or None where it was not seen."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Results of some steps.

    Attributes:
        quantities: "loss", "gradient norm", "output", "result" -> one value a step; "update" -> one
            value in all; "fed" -> digests of the whole numbers (tokens) that models were fed.
        precision: "float32", "tf32", "bfloat16", "float16": what the code computes in.
        dropout: some dropout was active and has been switched off.
        seed: of the generators.
    """

    quantities: Mapping[str, Sequence[Value]]
    precision: str = "float32"
    dropout: bool = False
    seed: int = 0

    @classmethod
    def of_message(cls, message: Mapping[str, Any], seed: int) -> Observed:
        """What `Watching.observe` gave, on the other side of the pipe."""
        quantities = {
            name: tuple(None if value is None else tuple(value) for value in values)
            for name, values in message["quantities"].items()
        }
        return cls(quantities, message["precision"], message["dropout"], seed)

    def seen(self, name: str) -> bool:
        """Whether a quantity was seen in any step."""
        return any(value is not None for value in self.quantities.get(name, ()))
