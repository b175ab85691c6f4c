"""Solves with triangular matrices: cuBLAS, in batches or one matrix after the other.

`triangular_solve_kernel` (ATen/native/cuda/linalg/BatchLinearAlgebra.cpp) loops over up to eight
matrices of 64 rows or more and hands all others to `cublasStrsmBatched`. That goes through panels
of 64 rows: in each, a block solves four matrices for eight right sides, row after row, which takes
as long for one as for 490 blocks at once; between panels a product updates the rows that are left.
The right sides are copied first, column by column. Times: 130 recorded calls of an H200.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, is_hot, kernel, machine, timed
from gpuscope.cost.copy.model import copy_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_PANEL, _LOOPED, _FEWEST = 64, 8, 64
"""Rows of a panel; most matrices that are solved one by one, and their fewest rows."""

_MATRICES, _SIDES = 4, 8
"""Of a block of the batched kernel."""


@kernel_model("aten::linalg_solve_triangular", "aten::triangular_solve")
def triangular(work: Work) -> tuple[Kernel, ...]:
    """The copies, the panels and the products between them."""
    if len(work.op.inputs) < 2 or not work.outputs or not work.outputs[0].numel:
        return ()
    old = work.op.name == "aten::triangular_solve"
    sides, matrix = work.op.inputs[:2] if old else work.op.inputs[1::-1]
    left = bool(work.op.args.get("left", True))
    rows, batch = matrix.shape[-1], prod(work.outputs[0].shape[:-2])
    count = work.outputs[0].numel // max(batch * rows, 1)
    before = [_by_column(work, sides)]
    if old:
        before.append(_by_column(work, matrix))
    if batch <= _LOOPED and rows >= _FEWEST:
        return (*before, *_looped(work, rows, count, left) * batch)
    return (*before, *_pointers(work, batch), *_batched(work, rows, count, batch))


def _by_column(work: Work, spec: TensorSpec) -> Kernel:
    """The copy of a stack of matrices, columns innermost."""
    order = [*range(len(spec.shape) - 2), len(spec.shape) - 1, len(spec.shape) - 2]
    steps, step = [0] * len(spec.shape), 1
    for dim in reversed(order):
        steps[dim], step = step, step * spec.shape[dim]
    target = replace(spec, stride=tuple(steps), storage=-1)
    return copy_kernel(work, spec, target, is_hot(work, work.op.inputs.index(spec)))


def _pointers(work: Work, batch: int) -> tuple[Kernel, ...]:
    """Addresses of the matrices and of the right sides (two `arange`)."""
    made = kernel(
        work,
        Launch(
            "elementwise_with_index",
            "copy",
            written_bytes=8.0 * batch,
            items=batch,
            grid=ceil(batch / 64),
            block=64,
            dtype="int64",
        ),
    )
    return made, made


def _batched(work: Work, rows: int, count: int, batch: int) -> tuple[Kernel, ...]:
    get, m = work.constants.value, machine(work)
    blocks = ceil(count / _SIDES) * ceil(batch / _MATRICES)
    rounds = max(1.0, blocks / (get("triangular.blocks_per_unit") * m.units))
    found: list[Kernel] = []
    for at in range(0, rows, _PANEL):
        panel, rest = min(_PANEL, rows - at), max(rows - at - _PANEL, 0)
        seconds = get("triangular.base_s") + get("triangular.row_s") * panel * panel
        if panel % _SIDES:
            seconds += get("triangular.odd_s")
        found.append(timed(work, "batch_trsm", "matmul", seconds * rounds, blocks, 256))
        if rest:
            offsets = timed(
                work, "offset_pointers", "matmul", get("triangular.offsets_s"), batch, 1
            )
            flops = 2.0 * _PANEL * rest * count * batch
            product_s = get("triangular.product_s") + flops / get("triangular.flops_per_s")
            tiles = ceil(rest / _PANEL) * ceil(count / _PANEL) * batch
            product = timed(work, "gemm", "matmul", product_s, tiles, 128)
            found += [offsets, offsets, replace(product, flops=flops)]
    return tuple(found)


def _looped(work: Work, rows: int, count: int, left: bool) -> tuple[Kernel, ...]:
    """One matrix: by a vector, or in panels of 64 (from the right) or 256 (from the left)."""
    get = work.constants.value
    if count == 1:
        init = timed(work, "trsv_init", "matmul", machine(work).floor_s, 1, 1)
        seconds = get("triangular.vector_s") + rows * get("triangular.vector_row_s")
        return init, timed(work, "trsv", "matmul", seconds, ceil(rows / 32), 128)
    panel = 256 if left else _PANEL
    found: list[Kernel] = []
    for at in range(0, rows, panel):
        size = min(panel, rows - at)
        seconds = min(size * get("triangular.one_row_s"), get("triangular.one_most_s"))
        if not left:
            seconds = get("triangular.right_s")
        found.append(timed(work, "trsm", "matmul", seconds, ceil(count / _SIDES), 256))
        if rows - at > panel:
            product_s = get("triangular.product_s")
            found.append(timed(work, "gemm", "matmul", product_s, ceil(count / 32), 64))
    return tuple(found)
