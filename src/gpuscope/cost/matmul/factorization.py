"""Factorisations, and what is solved with them: Cholesky, LU, QR, singular and eigenvalues.

cuSOLVER goes from column to column, or from block to block, and each waits for the one before, so
that time is a matter of columns and hardly of arithmetic: a Cholesky factor of 2,048 columns takes
0.68 ms on an H200, its arithmetic 0.1. Singular and eigenvalues of middle sizes come by Jacobi
rotations: sweeps over all pairs of blocks of 16 columns, about one more for each doubling. Stacks
are done at once up to 32 columns, and mostly one matrix after the other beyond, in hundreds of
launches. Which library and which of its ways is PyTorch's choice (aten/src/ATen/native/cuda/linalg/
BatchLinearAlgebra.cpp, BatchLinearAlgebraLib.cpp); how often each launches and what a column takes,
82 recorded calls of an H200 (validation/recordings/h200/functions.jsonl.gz).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, log2, prod

from gpuscope.cost.bandwidth import timed
from gpuscope.cost.registry import Work, kernel_model, model_for
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_BLOCK = 16
"""Columns of a block of Jacobi's sweeps, and of a panel of a stack's Cholesky factors."""

_SMALL = 32
"""Columns up to which a stack's singular values, or its LU factors, are one kernel."""

_JACOBI = 512
"""Columns up to which eigenvalues of float32 come by rotations; beyond, by a tridiagonal matrix."""

_BATCHED_QR = 256
"""Rows up to which stacks of a sixteenth as many matrices go to cuBLAS's batched QR."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Launches alike: what they are called, seconds of each, how many."""

    name: str
    seconds: float
    times: int = 1


Way = Callable[[Work, int, int, int], Iterator[Steps]]
"""From the matrices' rows, their columns and how many they are."""


def _few(times: int) -> Steps:
    """Copies, flags and pivots around: least kernels."""
    return Steps("elementwise_small", 0.0, times)


def _cholesky(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    get = work.constants.value
    if batch == 1:
        seconds = max(get("cholesky.least_s"), columns * get("cholesky.column_s"))
        yield Steps("potrf", seconds)
    else:
        panels = ceil(columns / _BLOCK)
        each = get("cholesky.panel_s") + columns * get("cholesky.panel_row_s")
        yield Steps("potrf_batched", each / 3, 3 * panels - 1)
    yield _few(7)


def _lu(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    get = work.constants.value
    steps = min(rows, columns)
    if batch == 1:
        seconds = steps * get("lu.column_s") + steps * max(rows, columns) * get("lu.square_s")
        # From 1,024 columns on recursively, with solves and products between.
        times = 1 if steps <= 512 else ceil(steps / 20)
        yield Steps("getrf", seconds / times, times)
        yield _few(8)
    elif steps <= _SMALL:
        yield Steps("getrf_batched", get("lu.small_s"))
        yield _few(4)
    else:
        times = ceil(steps * 0.7)
        yield Steps("getrf_batched", steps * get("lu.batched_column_s") / times, times)
        yield _few(4)


def _substituted(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    """Two solves with triangles, and the swapped rows between."""
    get = work.constants.value
    seconds = get("solve.base_s") + columns * get("solve.column_s")
    yield Steps("trsm", seconds / 2, 2)
    yield _few(8)


def _solve(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    yield from _lu(work, rows, columns, batch)
    yield from _substituted(work, rows, columns, batch)


def _qr(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    get = work.constants.value
    steps = min(rows, columns)
    formed = _formed(work, steps)
    if rows <= _BATCHED_QR and batch >= max(2, rows // 16):
        each = steps * (get("qr.batched_s") + rows * get("qr.batched_row_s"))
        yield Steps("geqrf_batched", rows * each)
        yield Steps(formed.name, formed.seconds, formed.times * batch)
        return
    seconds = steps * (get("qr.column_s") + rows * get("qr.row_s"))
    times = max(4, ceil(steps / 4) - formed.times)
    left = max(seconds - formed.seconds * formed.times, 0.0)
    yield Steps("geqrf", left / times, times * batch)
    yield Steps(formed.name, formed.seconds, formed.times * batch)


def _formed(work: Work, columns: int) -> Steps:
    """The orthogonal factor from its reflections: a few products for each 32 columns."""
    return Steps("orgqr", work.constants.value("qr.formed_s"), 10 + columns // 64)


def _rounds(columns: int) -> int:
    """Rounds of a sweep in which each block of columns meets each other one."""
    return max(1, ceil(columns / _BLOCK) - 1)


def _svd(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    get = work.constants.value
    steps = min(rows, columns)
    if max(rows, columns) <= _SMALL:
        yield Steps("gesvdj_batched", get("svd.small_s") + steps * get("svd.small_column_s"))
        yield _few(7)
        return
    if rows != columns:
        for step in _qr(work, max(rows, columns), steps, 1):
            yield Steps(step.name, step.seconds, step.times * batch)
    times = batch * _rounds(steps) * (ceil(log2(steps)) + 1)
    yield Steps("gesvdj_block", get("svd.block_s"), times)
    yield Steps("gesvdj_rotate", get("svd.rotate_s") + steps * get("svd.rotate_row_s"), 3 * times)
    yield _few(20 * batch)


def _eigh(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    get = work.constants.value
    jacobi = batch == 1 or columns > _SMALL
    single = work.op.inputs[0].dtype == "float32"
    if jacobi and single and _SMALL <= columns <= _JACOBI:
        times = batch * _rounds(columns) * ceil(log2(columns))
        yield Steps("syevj_block", get("eigh.block_s"), times)
        rotate = get("eigh.rotate_s") + columns * get("eigh.rotate_row_s")
        yield Steps("syevj_rotate", rotate / 3, 3 * times)
        yield _few(20 * batch)
        return
    each = columns * (get("eigh.column_s") + columns * get("eigh.column_row_s"))
    at_once = 1 if columns <= _SMALL else batch
    times = 27 + columns // 4
    yield Steps("syevd", each / times, times * at_once)


def _eig(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    get = work.constants.value
    each = columns * (get("eig.column_s") + columns * get("eig.column_row_s"))
    times = 14 * columns
    yield Steps("geev", each / times, times * batch)


def _reflections(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    formed = _formed(work, columns)
    yield Steps(formed.name, formed.seconds, formed.times * batch)
    yield _few(4)


def _least_squares(work: Work, rows: int, columns: int, batch: int) -> Iterator[Steps]:
    for step in _qr(work, rows, columns, 1):
        yield Steps(step.name, step.seconds, step.times * batch)
    yield Steps("ormqr", work.constants.value("qr.applied_s"), 2 * columns * batch)
    yield _few(8)


_WAYS: dict[str, Way] = {
    "linalg_cholesky_ex": _cholesky,
    "cholesky": _cholesky,
    "linalg_lu_factor_ex": _lu,
    "linalg_lu": _lu,
    "_linalg_det": _lu,
    "_linalg_slogdet": _lu,
    "linalg_inv_ex": _solve,
    "_linalg_solve_ex": _solve,
    "linalg_lu_solve": _substituted,
    "cholesky_solve": _substituted,
    "cholesky_inverse": _substituted,
    "linalg_qr": _qr,
    "geqrf": _qr,
    "_linalg_svd": _svd,
    "linalg_pinv": _svd,
    "_linalg_eigh": _eigh,
    "linalg_eig": _eig,
    "_linalg_eigvals": _eig,
    "linalg_lstsq": _least_squares,
    "linalg_householder_product": _reflections,
}


@kernel_model(*(f"aten::{name}" for name in _WAYS))
def factorization(work: Work) -> tuple[Kernel, ...]:
    """All launches, those of one sort together."""
    name = work.op.name.removeprefix("aten::")
    matrix = _matrix(name, work.op.inputs)
    if not matrix.numel or len(matrix.shape) < 2:
        return ()
    rows, columns = matrix.shape[-2:]
    made: list[Kernel] = []
    for step in _WAYS[name](work, rows, columns, prod(matrix.shape[:-2])):
        grid = max(1, matrix.numel // 4096)
        made += [timed(work, step.name, "matmul", step.seconds, grid, 256)] * step.times
    return tuple(made)


_PRODUCTS, _AROUND = 10, 58
"""Of a matrix's exponential by its Taylor series: products, and small kernels (norms, copies)."""


@kernel_model("aten::linalg_matrix_exp")
def exponential(work: Work) -> tuple[Kernel, ...]:
    """Products of the matrix with itself (LinearAlgebra.cpp, `mexp_impl`)."""
    matrix = work.op.inputs[0]
    if not matrix.numel:
        return ()
    name = "aten::mm" if len(matrix.shape) == 2 else "aten::bmm"
    op = replace(work.op, name=name, inputs=(matrix, matrix), outputs=(matrix,))
    model = model_for(name)
    product = model(replace(work, op=op)) if model is not None and len(matrix.shape) < 4 else ()
    around = _few(_AROUND)
    small = timed(work, around.name, "matmul", around.seconds, 1, 128)
    return product * _PRODUCTS + (small,) * _AROUND


def _matrix(name: str, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
    """The matrix that is taken apart, or was: right sides come first where it is a triangle."""
    return inputs[1] if name == "cholesky_solve" else inputs[0]
