"""Matrix products: mm, addmm, bmm, baddbmm, mv, dot, linear, and their 8-bit forms.

Shapes and strides of the operands give M, N, K, the layout (NN, NT, TN, TT) and the alignment;
`gpuscope.cost.gemm` does the timing. FLOPs are 2 M N K. An operand that is neither row- nor
column-major is copied first, as PyTorch does.
"""

from __future__ import annotations

from math import prod

from gpuscope.cost.gemm import Machine, Plan, Problem, machine_for, plan
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel, Kind
from gpuscope.program.types import TensorSpec

_COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def compute_dtype(work: Work, dtype: str, switch: str = "tf32_matmul", on: bool = False) -> str:
    """The dtype that a product is computed in: "tf32" for float32 where that is allowed.

    Args:
        work: carries the program's settings and the device.
        dtype: of the operands.
        switch: the setting that allows TF32.
        on: whether it is on where the program does not say.
    """
    dtype = _COMPLEX.get(dtype, dtype)
    if dtype == "float32" and work.setting(switch, on) and work.device.supports("tf32"):
        return "tf32"
    return dtype


def layout_of(spec: TensorSpec) -> str:
    """ "N" if the last dimension is dense, "T" if the one before it is, "-" if neither is."""
    rows, columns = spec.shape[-2:]
    row_step, column_step = spec.stride[-2:]
    if (column_step == 1 or columns == 1) and (row_step >= columns or rows == 1):
        return "N"
    if (row_step == 1 or rows == 1) and (column_step >= rows or columns == 1):
        return "T"
    return "-"


def alignment_bytes(*specs: TensorSpec) -> int:
    """Largest power of two, at most 16, that divides the byte steps between rows."""
    aligned = 16
    for spec in specs:
        leading = max(spec.stride[-2:], default=1)
        step = int(leading * spec.itemsize) if leading > 1 else int(spec.shape[-1] * spec.itemsize)
        while aligned > 1 and step % aligned:
            aligned //= 2
    return aligned


def gemm_kernel(
    work: Work, problem: Problem, machine: Machine, found: Plan, name: str,
    kind: Kind = "matmul", family: str = "matmul", note: str = "",
) -> Kernel:  # fmt: skip
    """The kernel of a planned product, with its 80 % interval."""
    rate = problem.dtype
    spread = work.constants.spread(f"{family}.{found.limiter}.scale", 0.3)
    tile = found.tile
    return Kernel(
        name=name, kind=kind, op=work.op.index, duration_s=found.duration_s,
        low_s=found.duration_s / (1 + spread), high_s=found.duration_s * (1 + spread),
        flops=problem.flops, read_bytes=found.read_bytes, written_bytes=found.written_bytes,
        least_bytes=problem.least_bytes, grid=found.grid, block=tile.threads,
        tile=(tile.m, tile.n, tile.k), waves=found.waves,
        occupancy=_occupancy(work, found), limiter=found.limiter, dtype=rate,
        compute_s=found.compute_s, memory_s=found.memory_s,
        origin="calibrated" if work.constants.calibrated else "estimated",
        note=note or (f"K split {found.split} ways" if found.split > 1 else ""),
    )  # fmt: skip


def _occupancy(work: Work, found: Plan) -> float | None:
    """Resident warps over the multiprocessor's maximum, averaged over all multiprocessors."""
    warps, width = work.device.max_warps_per_unit, work.device.warp_size
    if warps is None or width is None:
        return None
    resident = min(found.grid / work.units, float(found.tile.resident))
    return min(resident * found.tile.threads / width / warps, 1.0)


def _hot(work: Work, position: int) -> bool:
    return position < len(work.hot) and work.hot[position]


def _gemm(
    work: Work, a_at: int, b_at: int, added_at: int | None = None, note: str = ""
) -> tuple[Kernel, ...]:
    """Kernels of a (batched) product of inputs `a_at` [.., M, K] and `b_at` [.., K, N]."""
    a, b, out = work.op.inputs[a_at], work.op.inputs[b_at], work.op.outputs[0]
    extra = work.op.inputs[added_at] if added_at is not None else None
    dtype = compute_dtype(work, a.dtype)
    layout = layout_of(a) + layout_of(b)
    batch = prod(a.shape[:-2])
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if out.numel == 0:
        return ()
    problem = Problem(
        m=m, n=n, k=k, batch=batch, dtype=dtype, a_bytes=float(a.touched_bytes),
        b_bytes=float(b.touched_bytes), c_bytes=float(out.nbytes), item_bytes=a.itemsize,
        extra_read_bytes=float(extra.touched_bytes) if extra is not None else 0.0,
        layout=layout.replace("-", "N"), aligned=alignment_bytes(a, b, out),
        hot_a=_hot(work, a_at), hot_b=_hot(work, b_at),
    )  # fmt: skip
    machine = machine_for(work.device, work.constants, dtype, "matmul")
    found = plan(problem, machine)
    name = f"gemm_{dtype}_{found.tile.name}x{found.tile.k}_{problem.layout.lower()}"
    if batch > 1:
        name = f"batched_{name}"
    return (gemm_kernel(work, problem, machine, found, name, note=note),)


@kernel_model("aten::mm", "aten::bmm", "aten::_int_mm", "aten::_scaled_mm")
def mm(work: Work) -> tuple[Kernel, ...]:
    """A [.., M, K] times B [.., K, N]; scales of 8-bit operands are applied in the epilogue."""
    return _gemm(work, 0, 1)


@kernel_model("aten::addmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_")
def addmm(work: Work) -> tuple[Kernel, ...]:
    """Product plus a bias row (fused in the epilogue) or a full matrix."""
    return _gemm(work, 1, 2, 0 if work.op.args.get("beta", 1) != 0 else None)
