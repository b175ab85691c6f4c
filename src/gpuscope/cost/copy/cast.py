"""A cast to float8 that also writes the tensor with its dimensions swapped, in one kernel.

Transformer Engine's `cast_transpose` (nvte_cast_transpose): tiles go through shared memory, so that
both results are written in whole rows. Bound by memory: 2 bytes read and 2 written an element.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, elements, first_dtype, kernel, reads, written
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import NVFP4

_WITH_SCALES = 1.125
"""A scale of 8 bits for every 16 elements of four."""

TILE = 4096
"""Elements of a block's tile, 64 x 64."""


@kernel_model("gpuscope::cast_transpose")
def cast_transpose(work: Work) -> tuple[Kernel, ...]:
    """One kernel; nothing for an empty tensor.

    Three for NVFP4: a tensor's largest values are found first, before and after the Hadamard
    transform of its columns; then one kernel writes rows and one the transformed columns
    (`NVFP4Quantizer` in transformer_engine/pytorch/csrc/quantizer.cpp).
    """
    count = elements(work.inputs[:1])
    if count == 0:
        return ()
    outputs = work.op.outputs
    if outputs[0].dtype != NVFP4:
        return (_pass(work, "cast_transpose", count, written(work)),)
    rows, columns = (float(spec.nbytes) * _WITH_SCALES for spec in outputs)
    return (
        _pass(work, "hadamard_amax", count, 0.0),
        _pass(work, "cast_rows", count, rows),
        _pass(work, "hadamard_cast_columns", count, columns),
    )


def _pass(work: Work, name: str, count: float, written_bytes: float) -> Kernel:
    """A kernel that reads the whole tensor."""
    read = reads(work)
    dtype, grid = first_dtype(work), ceil(count / TILE)
    launch = Launch(name, "pointwise", read.cold, read.hot, written_bytes, grid=grid, dtype=dtype)
    return kernel(work, launch)
