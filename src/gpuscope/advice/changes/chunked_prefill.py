"""A prompt in pieces: less memory at once, and decoding of other requests in between.

Agrawal et al., "SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked Prefills"
(2023). The prompt alone gets no faster: each piece reads the weights again. It is a habit of a
service, so it is told, not made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.decoding import decodes, rows_per_product
from gpuscope.advice.changes.more_requests import ridge_rows
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ChunkedPrefill"]


class ChunkedPrefill(Change):
    """Run a prompt piece by piece."""

    name = "chunked-prefill"
    title = Text("prompts in pieces")
    group = "inference"
    numerics = "reordered"

    def fits(self, case: ChangeCase) -> Fit:
        """Never made from outside; says from which length on a piece wastes nothing."""
        program = case.program
        attends = program is not None and any(
            op.name.rpartition("::")[2] == "attention" for op in program.ops
        )
        if program is None or case.training or not attends or decodes(program):
            why = Text("It runs no prompt.")
            return Fit(False, why, relevant=False)
        rows, ridge = rows_per_product(program), ridge_rows(case)
        if rows is None or ridge is None or rows < 2 * ridge:
            why = Text("The prompt is short.")
            return Fit(False, why, relevant=False)
        return Fit(
            False,
            Text(
                "The prompt alone would not get faster. In a service, pieces of {ridge} tokens or "
                "more (of {rows}) keep the compute units busy and let other requests decode in "
                "between.",
                ridge=ridge,
                rows=rows,
            ),
        )

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            Text("A prompt is not cut from outside."),
            Text("It is a habit of a service."),
            Text("Turn on chunked prefill in the serving engine."),
        )


register(ChunkedPrefill())
