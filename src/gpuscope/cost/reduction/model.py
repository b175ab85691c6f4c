"""Reductions: sums, means, extrema, norms, variances.

How many threads share one output, and how many blocks (`reduce_plan`), decides the time of ATen's
`reduce_kernel`: few long reductions are limited by the dependent loads of each thread, not by
bandwidth. Where several
blocks share an output, a memset of their semaphores goes first and the last block adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, is_hot, kernel, machine, written
from gpuscope.cost.copy.model import copy_kernel, fill_kernel, made_contiguous
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.reduction.plan import ReducePlan, iterated, plan_of
from gpuscope.cost.reduction.threads import sectors_per_byte, thread_clocks
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import Op, TensorSpec

_UNROLLED = 4.0


def memset_kernel(work: Work) -> Kernel:
    """A memset of a few bytes: semaphores of blocks that share an output."""
    duration = work.constants.value("reduction.memset_s")
    return Kernel(
        name="memset",
        kind="memset",
        op=work.op.index,
        duration_s=duration,
        low_s=duration * 0.9,
        high_s=duration * 1.2,
        grid=0,
        block=0,
        limiter="launch",
        origin="calibrated" if work.constants.calibrated else "estimated",
        note=Text("semaphores of blocks that share an output"),
    )


def reduce_kernels(
    work: Work,
    spec: TensorSpec,
    dims: Sequence[int],
    *,
    name: str,
    hot: bool = False,
    out_bytes: float = 0.0,
    arithmetic: float = 1.0,
    family: str = "reduction",
    note: str = "",
) -> tuple[Kernel, ...]:
    """Kernels that reduce dimensions `dims` of `spec`.

    Args:
        work: what is costed.
        spec: the input.
        dims: reduced dimensions, not negative.
        name: of the operation.
        hot: the input is likely in L2.
        out_bytes: bytes written.
        arithmetic: clocks relative to those of the operator that `name` is of.
        family: of the scale constant.
        note: for a reader.
    """
    length = prod(spec.shape[d] for d in dims)
    if not spec.numel or not length:
        return ()
    m = machine(work)
    plan, innermost = plan_of(spec, dims, name, m.units, m.threads_per_unit)
    runs, get = iterated(spec, dims), work.constants.value
    # Four loads at once, or as many values of a dense run by one.
    steps = ceil(plan.per_thread / max(_UNROLLED, plan.loaded))
    way = "rows" if innermost else "columns"
    total = float(spec.touched_bytes)
    again = total * (sectors_per_byte(plan, innermost, runs, spec.itemsize) - 1.0)
    shared = Text("{shared_by} blocks share each output", shared_by=plan.shared_by)
    main = kernel(
        work,
        Launch(
            f"reduce_{name}",
            "reduction",
            0.0 if hot else total,
            again + (total if hot else 0.0),
            out_bytes,
            total + out_bytes,
            items=float(plan.grid * plan.threads),
            cycles=thread_clocks(work, name, plan, innermost, runs, spec.itemsize) * arithmetic,
            overlap=get("reduction.overlap"),
            loads=steps * get(f"reduction.{way}.load") * _step(work, name),
            grid=plan.grid,
            block=plan.threads,
            chain_s=get(f"reduction.{way}.base_s"),
            floor_s=_finish_s(work, plan, innermost),
            dtype=spec.dtype,
            family=family,
            note=note or (shared if plan.shared_by > 1 else ""),
        ),
    )
    return (memset_kernel(work), main) if plan.shared_by > 1 else (main,)


def _finish_s(work: Work, plan: ReducePlan, innermost: bool) -> float:
    """What the last block of an output adds up, after all partial results have been read."""
    if plan.shared_by <= 1:
        return 0.0
    get = work.constants.value
    depth = plan.shared_by / (plan.threads if innermost else plan.down)
    return get("reduction.shared.base_s") + depth * get("reduction.shared.step_s")


def reduced_dims(op: Op, spec: TensorSpec) -> tuple[int, ...]:
    """The dimensions that the operator reduces: its "dim" argument, all if there is none."""
    rank = len(spec.shape)
    dim = op.args.get("dim", op.args.get("axis"))
    if isinstance(dim, bool) or dim is None:
        return tuple(range(rank))
    if isinstance(dim, int):
        return (dim % rank,) if rank else ()
    if isinstance(dim, (tuple, list)):
        found = tuple(int(d) % rank for d in dim if isinstance(d, int)) if rank else ()
        return found or tuple(range(rank))
    return tuple(range(rank))


_SAME = {
    "argmin": "argmax",
    "min": "max",
    "var_mean": "var",
    "std": "var",
    "std_mean": "var",
    "all": "any",
}


def _same(name: str) -> str:
    """The operator whose constants another shares."""
    return _SAME.get(name, name)


def _step(work: Work, name: str) -> float:
    return work.constants.value(f"reduction.{_same(name)}.step", "reduction.step")


@kernel_model(
    "aten::sum",
    "aten::mean",
    "aten::amax",
    "aten::amin",
    "aten::max",
    "aten::min",
    "aten::argmax",
    "aten::argmin",
    "aten::any",
    "aten::all",
    "aten::prod",
    "aten::var",
    "aten::var_mean",
    "aten::std",
    "aten::std_mean",
    "aten::norm",
    "aten::linalg_vector_norm",
    "aten::nansum",
    "aten::nanmean",
    "aten::count_nonzero",
    "aten::aminmax",
    "aten::_aminmax",
    "aten::linalg_norm",
    "aten::_is_all_true",
    "aten::_is_any_true",
)
def reduce(work: Work) -> tuple[Kernel, ...]:
    """One result for each slice of the input (or one in all)."""
    if not work.inputs or not work.outputs:
        return ()
    spec = work.op.inputs[0]
    short = work.op.name.rpartition("::")[2]
    if len(work.inputs) > 1 and short in ("max", "min"):
        return elementwise(work, name=short)
    if spec.device != "device" or not spec.numel:
        return ()
    if short in ("max", "min") and len(work.outputs) == 1:
        short = f"a{short}"  # of the whole tensor: no place is kept
    before, spec, hot = widened(work, spec) if short in WIDENED else ((), spec, is_hot(work, 0))
    if is_made_dense(work.op):
        before = made_contiguous(work, 0)
        spec = replace(spec, shape=(spec.numel,), stride=(1,))
        hot = hot or spec.nbytes * 2 <= machine(work).l2_bytes
    dims = reduced_dims(work.op, spec)
    if _same(short) == "argmax" and spec.numel == work.outputs[0].numel and "dim" in work.op.args:
        # Of one value it is the first: `result.fill_(0)` (ATen/native/ReduceOps.cpp, argmax_argmin)
        return (fill_kernel(work, work.outputs[0]),)
    made = reduce_kernels(work, spec, dims, name=short, hot=hot, out_bytes=written(work))
    return (*before, *made)


def is_made_dense(op: Op) -> bool:
    """Whether an extreme of the whole tensor first copies it, since its rows do not follow on.

    `max`, `min` (ATen/native/ReduceAllOps.cpp) and `aminmax` (TensorCompare.cpp) take
    `self.contiguous()` where no dimension is given: a picture in channels last is copied, as
    observers for quantisation do to every activation.
    """
    short = op.name.rpartition("::")[2]
    whole = short in ("max", "min", "aminmax") and len(op.inputs) == 1 and "dim" not in op.args
    return whole and not op.inputs[0].is_contiguous


WIDENED = frozenset({"sum", "nansum", "prod", "mean"})
"""Reductions whose input is converted to the result's type before."""


def widened(work: Work, spec: TensorSpec) -> tuple[tuple[Kernel, ...], TensorSpec, bool]:
    """What converts the input to the result's type, what is then reduced, and whether it is hot.

    Whole numbers and masks are copied to int64 (ReduceOpsUtils.h, make_reduction); 16-bit floats
    that come to float32 are converted as they are loaded.
    """
    target, hot = work.outputs[0].dtype, is_hot(work, 0)
    if not is_widened(spec, target):
        return (), spec, hot
    wide = TensorSpec(spec.shape, spec.stride, target)
    copy = copy_kernel(work, spec, wide, hot)
    return (copy,), wide, wide.nbytes * 2 <= machine(work).l2_bytes


def is_widened(spec: TensorSpec, target: str) -> bool:
    """Whether `spec` is copied to the result's type `target` before it is reduced."""
    half = spec.dtype in ("float16", "bfloat16") and target == "float32"
    return spec.dtype != target and not half


@kernel_model("aten::logsumexp", "aten::_logcumsumexp")
def logsumexp(work: Work) -> tuple[Kernel, ...]:
    """Maximum, subtraction with exp, sum and log: four kernels, one temporary."""
    spec = work.op.inputs[0]
    if spec.device != "device" or not spec.numel:
        return ()
    dims = reduced_dims(work.op, spec)
    out = written(work)
    once = reduce_kernels(work, spec, dims, name="amax", hot=is_hot(work, 0), out_bytes=out)
    hot = spec.nbytes * 2 <= machine(work).l2_bytes
    middle = copy_kernel(work, spec, spec, hot, Text("exp of the difference to the maximum"))
    total = reduce_kernels(work, spec, dims, name="sum", hot=hot, out_bytes=out)
    return (*once, replace(middle, name="elementwise_strided_exp", kind="pointwise"), *total)
