"""More sequences in each decoding step: the weights are read once for all of them.

A decoding step at batch 1 reads every weight for one token. With more sequences the same bytes
serve more tokens, until products are bound by computing (the ridge of the roofline: Williams,
Waterman and Patterson, 2009) or the caches fill the memory. How many requests there are is for the
service to say, so this is told, not made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.decoding import decodes, rows_per_product
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text, plural, sentences
from gpuscope.errors import UnsupportedError
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["MoreRequests", "cache_bytes", "ridge_rows"]


class MoreRequests(Change):
    """Decode more sequences at once."""

    name = "more-requests"
    title = Text("decode more sequences at once")
    group = "inference"
    numerics = "recipe"

    def fits(self, case: ChangeCase) -> Fit:
        """Never made from outside; says how many sequences there is room and reason for."""
        program = case.program
        if program is None or case.training or not decodes(program):
            why = Text("It does not decode token by token.")
            return Fit(False, why, relevant=False)
        rows, ridge = rows_per_product(program), ridge_rows(case)
        if rows is None or ridge is None:
            return Fit(False, Text("There are no products."), relevant=False)
        if rows >= ridge:
            why = Text("Its {rows} sequences keep the compute units busy already.", rows=rows)
            return Fit(False, why)
        return Fit(False, _why(case, program, rows, ridge))

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            Text("The number of sequences cannot be changed from outside."),
            Text("Which requests there are is the service's to say."),
            Text(
                "Batch requests in the service, or predict it: gpuscope predict MODEL --task "
                "decode --batch 16"
            ),
        )


def _why(case: ChangeCase, program: Program, rows: int, ridge: int) -> Text:
    each = cache_bytes(program) / rows
    peak, capacity = case.run.peak_memory_bytes, case.device.memory_bytes
    headroom = None
    if each > 0 and peak is not None and capacity:
        headroom = Text(
            "In memory there is room for about {more} more at this context.",
            more=max(0, int((0.9 * capacity - peak) / each)),
        )
    return sentences(
        plural(
            "Each step reads all weights for {count} sequence; up to about {ridge} at once a step "
            "takes little longer.",
            "Each step reads all weights for {count} sequences; up to about {ridge} at once a step "
            "takes little longer.",
            rows,
            ridge=ridge,
        ),
        headroom,
        Text("How many there are is for your service to say."),
    )


def ridge_rows(case: ChangeCase) -> int | None:
    """Rows of a product at which computing takes as long as reading the weights (2 bytes each)."""
    if case.program is None or not case.device.memory_bandwidth_bytes_per_s:
        return None
    dtype = case.program.dtype if case.device.supports(case.program.dtype) else "bfloat16"
    if not case.device.supports(dtype):
        return None
    # A weight of b bytes serves 2 operations a row.
    weight_bytes = 4 if dtype == "float32" else 2
    peak = case.device.peak_flops_per_s(dtype)
    return round(peak / case.device.memory_bandwidth_bytes_per_s * weight_bytes / 2)


def cache_bytes(program: Program) -> int:
    """Bytes of keys and values that attention with one query reads in a step."""
    return sum(
        op.repeat * sum(spec.touched_bytes for spec in op.inputs[1:3])
        for op in program.ops
        if op.name.rpartition("::")[2] == "attention"
        and len(op.inputs) > 2
        and len(op.inputs[0].shape) == 4
        and op.inputs[0].shape[-2] == 1
    )


register(MoreRequests())
