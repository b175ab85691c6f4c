"""What is added to a product, copied first to where the result goes."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.copy.model import copy_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec


def row_on_all(work: Work, row: TensorSpec) -> Kernel:
    """A row for each product of a batch, copied to all rows of the result.

    No epilogue of a batched product adds a row: `baddbmm` begins with `result.copy_(self)`
    (ATen/native/LinearAlgebra.cpp, `common_checks_baddbmm_bmm`), element by element, since what is
    read is broadcast. 0.08 ms for 64 x 4,096 x 128 of float32 on an H200.
    """
    out = work.op.outputs[0]
    lacks = len(out.shape) - len(row.shape)
    sizes, steps = (1,) * lacks + row.shape, (0,) * lacks + row.stride
    spread = tuple(0 if s == 1 else st for s, st in zip(sizes, steps, strict=True))
    return copy_kernel(work, replace(row, shape=out.shape, stride=spread), out)


def copied(
    work: Work, read_bytes: float | None = None, written_bytes: float | None = None
) -> Kernel:
    """What is added, copied to where the result goes: the library adds in place.

    Args:
        work: the product's.
        read_bytes, written_bytes: of the copy; of the whole result where None.

    aten/src/ATen/native/cuda/Blas.cpp, `addmm_out_cuda_impl` and `bmm_out_cuda_impl`.
    """
    get = work.constants.value
    size = float(work.op.outputs[0].nbytes) if written_bytes is None else written_bytes
    read = size if read_bytes is None else read_bytes
    memory = (read + size) / (
        work.bandwidth * get("matmul.copy.bandwidth_efficiency") * get("bandwidth.reach")
    )
    seconds = get("matmul.copy.floor_s") + memory
    return Kernel(
        name="copy_added_matrix",
        kind="copy",
        op=work.op.index,
        duration_s=seconds,
        low_s=seconds * 0.75,
        high_s=seconds * 1.35,
        read_bytes=read,
        written_bytes=size,
        least_bytes=0.0,
        limiter="memory",
        memory_s=memory,
        note=Text("the result starts as the added matrix"),
        origin="calibrated" if work.constants.calibrated else "estimated",
    )
