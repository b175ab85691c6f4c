"""A prompt in pieces: less memory at once, and decoding of other requests in between.

Agrawal et al., "SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked Prefills"
(2023). The prompt alone gets no faster: each piece reads the weights again. It is a habit of a
service, so it is told, not made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.more_requests import ridge_rows
from gpuscope.advice.decoding import decodes, rows_per_product
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["ChunkedPrefill"]


class ChunkedPrefill(Change):
    """Run a prompt piece by piece."""

    name = "chunked-prefill"
    title = Words("prompts in pieces", "分块预填充")
    group = "inference"
    numerics = "reordered"

    def fits(self, case: Case) -> Fit:
        """Never made from outside; says from which length on a piece wastes nothing."""
        program = case.program
        attends = program is not None and any(
            op.name.rpartition("::")[2] == "attention" for op in program.ops
        )
        if program is None or case.training or not attends or decodes(program):
            why = Words("It runs no prompt.", "不是预填充。")
            return Fit(False, why, relevant=False)
        rows, ridge = rows_per_product(program), ridge_rows(case)
        if rows is None or ridge is None or rows < 2 * ridge:
            why = Words("The prompt is short.", "提示词不长。")
            return Fit(False, why, relevant=False)
        return Fit(
            False,
            Words(
                f"The prompt alone would not get faster. In a service, pieces of {ridge} tokens or"
                f" more (of {rows}) keep the compute units busy and let other requests decode in"
                " between.",
                f"单看提示词不会更快。在服务中，每块 {ridge} 个词元以上（共 {rows}）即可让计算单元"
                "忙碌，并让其他请求在其间解码。",
            ),
        )

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            "A prompt is not cut from outside.", "It is a habit of a service.",
            "Turn on chunked prefill in the serving engine.",
        )  # fmt: skip


register(ChunkedPrefill())
