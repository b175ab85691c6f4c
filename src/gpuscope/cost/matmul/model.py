"""Matrix products: mm, addmm, bmm, baddbmm, mv, dot, linear, and their 8-bit forms.

Shapes and strides of the operands give M, N, K, the layout (NN, NT, TN, TT) and the alignment;
`gpuscope.cost.matmul.gemm` does the timing. FLOPs are 2 M N K. An operand that is neither row- nor
column-major is copied first, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, kernel
from gpuscope.cost.copy.model import made_contiguous
from gpuscope.cost.matmul.gemm import Machine, Plan, Problem, machine_for, plan, reduction_s
from gpuscope.cost.matmul.small import in_kernels
from gpuscope.cost.reduction.model import memset_kernel
from gpuscope.cost.registry import Work, kernel_model, model_for
from gpuscope.cost.types import Kernel, Kind
from gpuscope.document.text import Text
from gpuscope.program.types import ADDED_TO, Op, TensorSpec

VECTOR_BYTES = 16
"""What a thread loads at once, where rows begin at multiples of it."""

_PAD = Text("rows copied to whole tiles")

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
        if len(spec.shape) < 2:
            continue
        leading = max(spec.stride[-2:], default=1)
        if leading == 1 and spec.shape[-1] == 1:
            continue  # a dense vector: where its "rows" begin does not matter
        step = int(leading * spec.itemsize) if leading > 1 else int(spec.shape[-1] * spec.itemsize)
        while aligned > 1 and step % aligned:
            aligned //= 2
    return aligned


def row_bytes(a: TensorSpec, b: TensorSpec, out: TensorSpec) -> int:
    """As `alignment_bytes`, for a product. The rows of a product of two vectors' elements (K of 1)
    are single elements: recorded ones run on the kernels that load so."""
    aligned = alignment_bytes(a, b, out)
    return min(aligned, int(a.itemsize)) if a.shape[-1] == 1 else aligned


def is_aligned(op: Op) -> bool:
    """Whether rows of a product's matrices begin where whole vectors can be loaded."""
    matrices = (spec for spec in (*op.inputs, *op.outputs) if len(spec.shape) >= 2)
    return alignment_bytes(*matrices) >= VECTOR_BYTES


def gemm_kernels(
    work: Work,
    problem: Problem,
    machine: Machine,
    found: Plan,
    name: str,
    kind: Kind = "matmul",
    family: str = "matmul",
    note: str = "",
    flops: float | None = None,
) -> tuple[Kernel, ...]:
    """The kernels of a planned product: itself and, where K is split, the sum of the slices after
    it or the memset of their semaphores before it.

    `flops` are the useful ones where the problem is padded.
    """
    scale = f"matmul.{found.limiter}.scale" if family == "matmul" else f"{family}.scale"
    spread = work.constants.spread(scale, "kernel.scale")
    tile = found.tile
    main = Kernel(
        name=name,
        kind=kind,
        op=work.op.index,
        duration_s=found.duration_s,
        low_s=found.duration_s / (1 + spread),
        high_s=found.duration_s * (1 + spread),
        flops=problem.flops if flops is None else flops,
        read_bytes=found.read_bytes,
        written_bytes=found.written_bytes,
        least_bytes=problem.least_bytes,
        grid=found.grid,
        block=tile.threads,
        tile=(tile.m, tile.n, tile.k),
        waves=found.waves,
        occupancy=_occupancy(work, found),
        limiter=found.limiter,
        dtype=problem.dtype,
        compute_s=found.compute_s,
        memory_s=found.memory_s,
        origin="calibrated" if work.constants.calibrated else "estimated",
        note=note or (Text("K split {split} ways", split=found.split) if found.split > 1 else ""),
    )
    if found.by_turns:
        return memset_kernel(work), main
    if found.split == 1:
        return (*_tile_counter(work, found, machine.of(tile)), main)
    return main, _added_slices(main, problem, machine.of(tile), found.split, spread)


def _added_slices(
    main: Kernel, problem: Problem, machine: Machine, split: int, spread: float
) -> Kernel:
    """The kernel after `main` that adds up the slices of K."""
    seconds = reduction_s(problem, machine, split)
    return replace(
        main,
        name="split_k_reduce",
        duration_s=seconds,
        low_s=seconds / (1 + spread),
        high_s=seconds * (1 + spread),
        flops=0.0,
        read_bytes=4.0 * problem.m * problem.n * problem.batch * split,
        written_bytes=problem.c_bytes,
        least_bytes=0.0,
        grid=max(1, problem.m * problem.n * problem.batch // 1024),
        block=512,
        tile=(),
        waves=0.0,
        occupancy=None,
        limiter="latency",
        compute_s=0.0,
        memory_s=seconds - machine.reduce_s,
        note=Text("adds up the slices of K"),
    )


def gemm_kernel(
    work: Work, problem: Problem, machine: Machine, found: Plan, name: str, kind: Kind = "matmul"
) -> Kernel:
    """A planned product as one kernel, for callers that repeat it; slices' sum included."""
    kernels = gemm_kernels(work, problem, machine, found, name, kind)
    main = next(kernel for kernel in kernels if kernel.flops)
    return replace(
        main,
        duration_s=sum(k.duration_s for k in kernels),
        low_s=sum(k.low_s for k in kernels),
        high_s=sum(k.high_s for k in kernels),
    )


def _tile_counter(work: Work, found: Plan, machine: Machine) -> tuple[Kernel, ...]:
    """The memset that Hopper's persistent kernels need where a block takes many tiles.

    Recorded launches on an H200 have it above two tiles a block: all of 654.
    """
    if not machine.persistent or found.rounds <= 2:
        return ()
    seconds = work.constants.value("matmul.tile_counter_s")
    return (
        Kernel(
            name="memset_tile_counter",
            kind="memset",
            op=work.op.index,
            duration_s=seconds,
            low_s=seconds * 0.7,
            high_s=seconds * 1.4,
            written_bytes=512.0,
            least_bytes=0.0,
            limiter="latency",
            note=Text("lets blocks draw the next tile"),
            origin="calibrated" if work.constants.calibrated else "estimated",
        ),
    )


def _occupancy(work: Work, found: Plan) -> float | None:
    """Resident warps over the multiprocessor's maximum, averaged over all multiprocessors."""
    warps, width = work.device.max_warps_per_unit, work.device.warp_size
    if warps is None or width is None:
        return None
    resident = min(found.grid / work.units, float(found.tile.resident))
    return min(resident * found.tile.threads / width / warps, 1.0)


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix of a product, and whether it is likely in L2 already."""

    spec: TensorSpec
    hot: bool


def written_item(op: Op) -> float:
    """Bytes of an element that a product writes: of its result, or of what it is added to."""
    out = op.outputs[0]
    kept_in = op.args.get(ADDED_TO)
    return replace(out, dtype=str(kept_in)).itemsize if kept_in else out.itemsize


def sum_read_bytes(op: Op) -> float:
    """Bytes that a product reads of what its result is added to; 0 for a result by itself."""
    return float(written_item(op) * op.outputs[0].numel) if op.args.get(ADDED_TO) else 0.0


def operand(work: Work, spec: TensorSpec, position: int) -> Operand:
    """The operand that `spec` describes, which is (a view of) input `position`."""
    return Operand(spec, position < len(work.hot) and work.hot[position])


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the planner takes it.

    Attributes:
        problem, machine: what runs where.
    """

    problem: Problem
    machine: Machine

    def kernel_name(self, found: Plan) -> str:
        """The main kernel's name under a plan."""
        problem = self.problem
        tile = found.tile
        name = f"gemm_{problem.dtype}_{tile.name}x{tile.k}_{problem.layout.lower()}"
        return f"batched_{name}" if problem.batch > 1 else name


def product(
    work: Work, left: Operand, right: Operand, extra: TensorSpec | None = None
) -> Product | None:
    """A (batched) product of `left` [.., M, K] and `right` [.., K, N]; None if it is empty."""
    a, b, out = left.spec, right.spec, work.op.outputs[0]
    dtype = compute_dtype(work, a.dtype)
    layout = layout_of(a) + layout_of(b)
    batch = prod(a.shape[:-2])
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if out.numel == 0:
        return None
    # Four multiply-adds each: as many as of real numbers twice as wide and twice as deep.
    parts = 2 if a.dtype in _COMPLEX else 1
    problem = Problem(
        m=m,
        n=n * parts,
        k=k * parts,
        batch=batch,
        dtype=dtype,
        a_bytes=float(a.touched_bytes),
        b_bytes=float(b.touched_bytes),
        c_bytes=written_item(work.op) * out.numel,
        item_bytes=a.itemsize / parts,
        out_bytes=written_item(work.op) / parts,
        extra_read_bytes=(float(extra.touched_bytes) if extra is not None else 0.0)
        + sum_read_bytes(work.op),
        biased=extra is not None and len(extra.shape) == 1,
        layout=layout.replace("-", "N"),
        aligned=row_bytes(a, b, out),
        hot_a=left.hot,
        hot_b=right.hot,
        whole=work.device.vendor == "NVIDIA" and batch > 1,
    )
    machine = machine_for(work.device, work.constants, dtype, "matmul", problem.aligned)
    if parts > 1:
        machine = replace(machine, walks={})  # kernels of real numbers alone
    return Product(problem, machine)


def _gemm(
    work: Work, left: Operand, right: Operand, extra: TensorSpec | None = None, note: str = ""
) -> tuple[Kernel, ...]:
    """Kernels of a (batched) product of `left` [.., M, K] and `right` [.., K, N]."""
    made = product(work, left, right, extra)
    if made is None:
        return ()
    if left.spec.shape[-1] == 0 and extra is None:  # `result.zero_()`, addmm_out_cuda_impl
        fill, out = model_for("aten::zero_"), work.op.outputs[0]
        zero = replace(work.op, name="aten::zero_", inputs=(out,))
        return fill(replace(work, op=zero, hot=(False,))) if fill is not None else ()
    found = plan(made.problem, made.machine)
    name = made.kernel_name(found)
    planned = gemm_kernels(work, made.problem, made.machine, found, name, note=note)
    kernels = in_kernels(work, made.problem, made.machine, planned)
    return (*_padded(work, (left.spec, right.spec, work.op.outputs[0])), *kernels)


def _padded(work: Work, specs: Sequence[TensorSpec]) -> tuple[Kernel, ...]:
    """Operands whose rows are copied to whole tiles first, and a result that is copied back.

    A matrix unit behind a scratchpad takes tiles of whole rows of 16 or 32 bytes. Operator by
    operator (Ascend, Cambricon) others are copied before; a compiler of whole steps lays tensors
    out padded from the start, and GPUs have kernels of their own (`machine_for`).
    """
    device = work.device
    if device.warp_size is not None or device.compiles_whole_steps or work.constants.calibrated:
        return ()
    from gpuscope.cost.matmul.added_matrix import copied

    return tuple(
        replace(copied(work, float(spec.nbytes), float(spec.nbytes)), name="pad_rows", note=_PAD)
        for spec in specs
        if alignment_bytes(spec) < 16
    )


@kernel_model("aten::mm", "aten::bmm", "aten::_int_mm", "aten::_scaled_mm")
def mm(work: Work) -> tuple[Kernel, ...]:
    """A [.., M, K] times B [.., K, N]; scales of 8-bit operands are applied in the epilogue."""
    a, b = work.op.inputs[:2]
    kernels = _gemm(work, operand(work, a, 0), operand(work, b, 1))
    if kernels and "-" in layout_of(a) + layout_of(b):
        return *_made_dense(work, 0, 1), *kernels
    if work.op.name == "aten::_scaled_mm" and kernels and _row_scaled(work):
        return (_one_tile(work, kernels[0], a.shape[-1], work.op.outputs[0].shape), *kernels[1:])
    return kernels


def _made_dense(work: Work, *positions: int) -> tuple[Kernel, ...]:
    """Copies of operands of which no dimension is dense, as gradients of a sum are, expanded from
    one number (`prepare_matrix_for_cublas` in aten/src/ATen/native/cuda/Blas.cpp)."""
    apart = [p for p in positions if layout_of(work.op.inputs[p]) == "-"]
    return made_contiguous(work, *apart)


def _row_scaled(work: Work) -> bool:
    """Whether 8-bit operands have a scale for each row, not one for all."""
    return any(s.numel > 1 for s in work.op.inputs[2:4])


def _one_tile(work: Work, kernel: Kernel, depth: int, shape: tuple[int, ...]) -> Kernel:
    """Products whose rows are scaled have one kernel for all sizes, of 128 x 128 tiles that walk
    the whole depth 128 values at a time: skinny ones are a walk of one tile (12 us for 4,096)."""
    get = work.constants.value
    seconds = get("matmul.row_scaled.start_s")
    seconds += ceil(depth / 128) * get("matmul.row_scaled.step_s")
    if seconds <= kernel.duration_s or work.device.vendor != "NVIDIA":
        return kernel
    return kernel.lasting(
        seconds,
        tile=(128, 128, 128),
        grid=ceil(shape[-2] / 128) * ceil(shape[-1] / 128),
        limiter="latency",
    )


@kernel_model(
    "aten::addmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_", "aten::_addmm_activation"
)
def addmm(work: Work) -> tuple[Kernel, ...]:
    """Product plus a bias row (fused in the epilogue, with an activation) or a full matrix."""
    added, a, b = work.op.inputs[:3]
    used = added if work.op.args.get("beta", 1) != 0 else None
    kernels = _added(work, operand(work, a, 1), operand(work, b, 2), used)
    if kernels and "-" in layout_of(a) + layout_of(b):
        kernels = (*_made_dense(work, 1, 2), *kernels)
    if work.op.args.get("use_gelu") and a.dtype == "float32":
        return (*kernels, *_gelu_after(work, kernels))
    return kernels


def _gelu_after(work: Work, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """float32 products have no kernel with a GELU: cuBLASLt's epilogue does it, or one more.

    An H200 launched `cublasLt::epilogue::impl::globalKernel` after each but the smallest, whose
    bias is added by that kernel anyway.
    """
    out = work.op.outputs[0]
    if not kernels or kernels[-1].name == "epilogue_bias":
        return ()
    size = float(out.nbytes)
    cycles = work.constants.value("matmul.epilogue_gelu_cycles")
    launch = Launch(
        "epilogue_gelu",
        "pointwise",
        hot_bytes=size,
        written_bytes=size,
        items=out.numel,
        cycles=cycles,
        grid=max(1, ceil(out.numel / 8192)),
        block=256,
        dtype=out.dtype,
    )
    return (kernel(work, launch),)


def _added(work: Work, a: Operand, b: Operand, used: TensorSpec | None) -> tuple[Kernel, ...]:
    """A product to which `used` is added: a row in the epilogue, a matrix by the library.

    A library of AMD's without epilogues (rocBLAS) is given the row as a matrix, copied to every
    row of the result before: `addmm_out_cuda_impl`, where cuBLASLt's counterpart is off, as it is
    by default on ROCm.
    """
    matrix = used is not None and len(used.shape) > 1 and used.shape[-2] > 1
    batched, amd = "baddbmm" in work.op.name, work.device.vendor == "AMD"
    if used is None or not (matrix or batched or amd):
        return _gemm(work, a, b, used)
    from gpuscope.cost.matmul.added_matrix import copied, row_on_all

    # Where no epilogue adds a row, the product is one that a matrix is added to.
    kernels = _gemm(work, a, b, used if matrix else work.op.outputs[0])
    in_place = work.op.name.endswith("_")
    if not kernels or (in_place and (matrix or batched)):
        return kernels
    if matrix:
        return (copied(work), *kernels)
    added = row_on_all(work, used) if batched else copied(work, float(used.nbytes))
    return (added, *kernels)


@kernel_model("aten::linear")
def linear(work: Work) -> tuple[Kernel, ...]:
    """Input [.., K] times weight [N, K] transposed, plus a bias."""
    x, weight = work.op.inputs[:2]
    rows = x.numel // max(x.shape[-1], 1)
    flat = replace(x, shape=(rows, x.shape[-1]), stride=(x.shape[-1], 1))
    turned = replace(weight, shape=weight.shape[::-1], stride=weight.stride[::-1])
    bias = work.op.inputs[2] if len(work.op.inputs) > 2 else None
    return _added(work, operand(work, flat, 0), operand(work, turned, 1), bias)


@kernel_model("aten::addbmm", "aten::addbmm_")
def addbmm(work: Work) -> tuple[Kernel, ...]:
    """Sum of a batch of products: PyTorch launches one product a batch entry."""
    added, a, b = work.op.inputs[:3]
    first = operand(work, _entry(a), 1), operand(work, _entry(b), 2)
    return _gemm(work, *first, added) * a.shape[0]


@kernel_model("aten::mv", "aten::addmv", "aten::addmv_")
def mv(work: Work) -> tuple[Kernel, ...]:
    """Matrix [M, K] times vector [K]."""
    at = 0 if work.op.name == "aten::mv" else 1
    matrix, vector = work.op.inputs[at], work.op.inputs[at + 1]
    column = replace(vector, shape=(*vector.shape, 1), stride=(*vector.stride, 1))
    added = work.op.inputs[0] if at else None
    return _gemm(work, operand(work, matrix, at), operand(work, column, at + 1), added)


@kernel_model("aten::dot", "aten::vdot")
def dot(work: Work) -> tuple[Kernel, ...]:
    """Product of two vectors: one kernel of partial sums, one that adds them up."""
    a, b = work.op.inputs[:2]
    row = replace(a, shape=(1, *a.shape), stride=(a.numel, *a.stride))
    column = replace(b, shape=(*b.shape, 1), stride=(*b.stride, 1))
    partial = _gemm(
        work, operand(work, row, 0), operand(work, column, 1), note=Text("partial sums")
    )
    floor = work.constants.value("matmul.reduce_s")
    return tuple(
        kernel
        for main in partial
        for kernel in (
            main,
            replace(
                main,
                name="reduce_partial_sums",
                duration_s=floor,
                low_s=floor * 0.8,
                high_s=floor * 1.3,
                flops=0.0,
                read_bytes=0.0,
                written_bytes=0.0,
                least_bytes=0.0,
                grid=1,
                compute_s=0.0,
                memory_s=0.0,
                limiter="latency",
            ),
        )
    )


def _entry(spec: TensorSpec) -> TensorSpec:
    """One matrix of a batch."""
    return replace(spec, shape=spec.shape[1:], stride=spec.stride[1:])
