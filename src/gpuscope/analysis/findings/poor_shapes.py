"""Matrix products whose sizes do not suit the matrix units."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import distinct
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.program.types import Op

LEAST_SHARE = 0.01
"""A gain below this share of the step is not worth a sentence."""

ALIGNMENT_BYTES = 16
"""Matrix rows whose length is a multiple of 16 bytes can be loaded in full vectors and by the
tensor memory accelerator (NVIDIA, "Matrix Multiplication Background User's Guide": 8 elements of
16-bit types, 4 of TF32); other lengths fall back to slower kernels."""

_SMALLEST = 512
"""Odd sizes below this (a batch of 3, 10 classes) are what the user asked for."""


@finding("poor_shapes", needs="time", order=130)
def poor_shapes(facts: Facts) -> Finding | None:
    """Applies when matrix products have a large dimension that breaks 16-byte alignment.

    Gain: what those kernels take beyond the roofline, as if alignment were all that they lack.
    """
    if facts.device is None or not facts.rows.ops.ops:
        return None
    op_of = facts.rows.work.op
    matmuls = _matmul_rows(facts) & (op_of >= 0)
    sizes = {int(i): odd_sizes(facts.rows.ops.ops[i]) for i in distinct(op_of[matmuls])}
    rows = matmuls & np.isin(op_of, [i for i, odd in sizes.items() if odd])
    gain = facts.gain_of(rows) if rows.any() else None
    if gain is None or facts.share(gain) < LEAST_SHARE:
        return None
    odd = sorted({size for i in distinct(op_of[rows]) for size in sizes[int(i)]})
    listed = ", ".join(map(str, odd[:3]))
    padded = -(-odd[0] // 64) * 64
    time_s = facts.time_of(rows)
    return Finding(
        kind="poor_shapes",
        title=Text(
            "Matrix products with a size of {listed} cannot use the fastest kernels.", listed=listed
        ),
        evidence=Text(
            "{products} matrix products with such a size take {time} ({share} of the step): their "
            "rows are no multiple of {alignment} bytes.",
            products=_products(facts, rows),
            time=Seconds(time_s),
            share=Percent(facts.share(time_s)),
            alignment=ALIGNMENT_BYTES,
        ),
        max_gain_s=gain,
        hint=Text(
            "Pad that size to a multiple of 64, for example {odd} to {padded}.",
            odd=odd[0],
            padded=padded,
        ),
        about=facts.about(rows),
    )


def odd_sizes(op: Op) -> tuple[int, ...]:
    """Return the matrix dimensions of an operator that break the alignment of a row."""
    sizes: set[int] = set()
    for spec in (*op.inputs, *op.outputs):
        if len(spec.shape) < 2 or not spec.itemsize:
            continue
        step = max(1, round(ALIGNMENT_BYTES / spec.itemsize))
        # Rows lie along the dense dimension: only its length moves the next row off its place.
        dense = zip(spec.shape[-2:], spec.stride[-2:], strict=True)
        sizes.update(n for n, st in dense if st == 1 and n >= _SMALLEST and n % step)
    return tuple(sorted(sizes))


def _products(facts: Facts, rows: npt.NDArray[np.bool_]) -> int:
    """How many products a step has: the sum over slices of K is a kernel of the same product."""
    launches: dict[int, dict[int, float]] = {}
    work = facts.rows.work
    for i in np.flatnonzero(rows):
        of_op = launches.setdefault(int(work.op[i]), {})
        kernel = int(work.kernel[i])
        of_op[kernel] = of_op.get(kernel, 0.0) + float(facts.rows.launches[i])
    return round(sum(max(of_op.values()) for of_op in launches.values()) / work.window.steps)


def _matmul_rows(facts: Facts) -> npt.NDArray[np.bool_]:
    kernels = facts.rows.kernels
    matmul = np.array([kind == "matmul" for kind in kernels.kind.table])
    return np.asarray(matmul[kernels.kind.take(facts.rows.work.kernel)], np.bool_)
