"""The loops that an operator becomes: elementwise over a number of points, or a reduction.

Inductor gives every generated loop nest the sizes (rows, columns): an elementwise one has
columns = 1, a reduction makes `rows` results of `columns` values each
(torch/_inductor/codegen/simd.py). Composite operators become several: a softmax is a reduction
(maximum and sum of a row) and an elementwise loop that reads its results. Operators that are not
known here stay calls to a library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from gpuscope.program.inductor.operator_sorts import (
    LOOK_UPS,
    OVERWRITES,
    POINTWISE,
    RANDOM,
    SCATTERS,
    SIMPLE_REDUCTIONS,
    WINDOWS,
)
from gpuscope.program.inductor.splitting import split_count
from gpuscope.program.types import Op, TensorSpec, row_major

Loop = Literal["pointwise", "reduction", "scatter"]


_UNROLLED = 8
"""Values up to which a sum is written out elementwise (`unroll_reductions_threshold`)."""


@dataclass(frozen=True, slots=True)
class Part:
    """One loop nest.

    Attributes:
        loop: what kind.
        rows: points of an elementwise loop, results of a reduction.
        columns: values reduced into one result; 1 for elementwise loops.
        reads: what it reads from memory if nothing is fused.
        writes: what it makes.
        inner: a reduction runs along the densest dimension.
        random: draws random numbers.
        window: reads several elements for each result, so that what it reads is a buffer.
    """

    loop: Loop
    rows: int
    columns: int
    reads: tuple[TensorSpec, ...]
    writes: tuple[TensorSpec, ...]
    inner: bool = True
    random: bool = False
    window: bool = False

    @property
    def splits(self) -> int:
        """Partial results of each result, where several kernels make it to fill the device.

        1 for a reduction in one kernel. After `InductorChoices.reduction_split_factor`
        (torch/_inductor/choices.py).
        """
        if self.loop != "reduction":
            return 1
        return split_count(self.rows, self.columns, self.inner)


Fresh = Callable[[], int]
"""Hands out storage ids for intermediate results that the captured program does not have."""

Lowering = Callable[[Op, Fresh], tuple[Part, ...]]


def base_name(op: Op) -> str:
    """ "aten::add_" -> "add"; dunder names and private prefixes stay."""
    return _base_name(op.name)


@cache
def _base_name(name: str) -> str:
    name = name.rpartition("::")[2]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def lower(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """The loop nests of an operator, in order; () if it stays a call to a library.

    Args:
        op: from the forward or backward pass, no view.
        fresh: gives storage ids for row statistics and the like.
    """
    if not any(t.device == "device" for t in op.outputs):
        return ()
    if any(t.device == "host" and t.shape for t in (*op.inputs, *op.outputs)):
        return ()
    base = base_name(op)
    special = _SPECIAL.get(base)
    if special is not None:
        return special(op, fresh)
    if base in POINTWISE or base in RANDOM or base in OVERWRITES:
        return (_pointwise(op, base),)
    if base in SIMPLE_REDUCTIONS:
        return _simple_reduction(op, base)
    if base in LOOK_UPS:
        return (_look_up(op, base),)
    if base in SCATTERS and op.name.endswith("_"):
        return (_scatter(op),)
    return ()


def _device(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(t for t in specs if t.device == "device")


def _pointwise(op: Op, base: str) -> Part:
    reads = _device(op.inputs)
    if base in OVERWRITES and op.name.endswith("_"):
        reads = reads[1:]
    if base == "nll_loss_backward":
        reads = (reads[0], *reads[2:])  # of the scores only the shape is wanted
    writes = op.outputs
    if base == "max_pool2d_with_indices" and len(writes) > 1:
        # Inductor keeps offsets inside the window, one byte each.
        writes = (writes[0], replace(writes[1], dtype="int8"))
    elif base == "max_pool2d_with_indices_backward":
        reads = tuple(replace(t, dtype="int8") if t.dtype == "int64" else t for t in reads)
    rows = max(t.numel for t in writes)
    return Part("pointwise", rows, 1, reads, writes, random=base in RANDOM, window=base in WINDOWS)


def _look_up(op: Op, base: str) -> Part:
    """Only the rows that are looked up are read."""
    table, out = op.inputs[0], op.outputs[0]
    if base == "gather" or out.numel < table.numel:
        table = replace(table, shape=out.shape, stride=row_major(out.shape))
    return Part("pointwise", out.numel, 1, _device((table, *op.inputs[1:])), op.outputs)


def _scatter(op: Op) -> Part:
    """Rows written into a tensor that stays: only they move."""
    source = max(op.inputs[1:], key=lambda t: t.nbytes, default=op.inputs[0])
    target = replace(op.outputs[0], shape=source.shape, stride=row_major(source.shape))
    return Part("scatter", source.numel, 1, _device(op.inputs[1:]), (target,))


def _inner(spec: TensorSpec, dims: Sequence[int]) -> bool:
    """Whether `dims` contain the dimension of least stride."""
    sizes = zip(spec.shape, spec.stride, strict=True)
    steps = [(step, d) for d, (size, step) in enumerate(sizes) if size > 1]
    rank = len(spec.shape)
    return not steps or min(steps)[1] in {d % rank for d in dims}


def _dims(op: Op, rank: int) -> tuple[int, ...]:
    dim = op.args.get("dim")
    if isinstance(dim, int):
        return (dim,)
    if isinstance(dim, tuple) and dim:
        return tuple(d for d in dim if isinstance(d, int))
    return tuple(range(rank))


def _simple_reduction(op: Op, base: str) -> tuple[Part, ...]:
    reads, out = _device(op.inputs), op.outputs[0]
    if not reads or (base in ("max", "min") and len(op.inputs) > 1):
        return (_pointwise(op, base),)
    source = reads[0]
    dims = _dims(op, len(source.shape))
    rows = max(out.numel, 1)
    if base.startswith("cum"):
        rows = max(1, out.numel // max(source.shape[dims[0]] if source.shape else 1, 1))
    columns = max(1, source.numel // rows)
    if columns == 1 or (columns <= _UNROLLED and rows > 1 and not base.startswith("cum")):
        return (Part("pointwise", rows, 1, reads, op.outputs),)
    return (Part("reduction", rows, columns, reads, op.outputs, _inner(source, dims)),)


def _statistics(rows: int, count: int, fresh: Fresh) -> TensorSpec:
    return TensorSpec((rows, count), (count, 1), "float32", "device", fresh())


def _softmax(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """A row's statistics, then the result from them; the same shape forward and backward."""
    backward = "backward" in op.name
    reads, out = _device(op.inputs), op.outputs[0]
    dim = op.args.get("dim", -1)
    dim = dim if isinstance(dim, int) else -1
    columns = out.shape[dim] if out.shape else 1
    rows = max(1, out.numel // max(columns, 1))
    statistics = _statistics(rows, 1 if backward else 2, fresh)
    return (
        Part("reduction", rows, columns, reads, (statistics,), _inner(out, (dim,))),
        Part("pointwise", out.numel, 1, (*reads, statistics), op.outputs),
    )


def _row_norm(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """Layer, group and RMS normalization: statistics of a row, then the normalized row."""
    x, out, *statistics = op.inputs[0], *op.outputs
    if not statistics:
        return ()
    rows = max(statistics[0].numel, 1)
    return (
        Part("reduction", rows, max(1, x.numel // rows), (x,), tuple(statistics)),
        Part("pointwise", out.numel, 1, (*_device(op.inputs), *statistics), (out,)),
    )


def _row_norm_backward(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """Two sums of a row and the input's gradient; sums over rows for weight and bias."""
    reads = _device(op.inputs)
    x = reads[1]
    rows = max(1, reads[2].numel)
    columns = max(1, x.numel // rows)
    parts: list[Part] = []
    dx = [t for t in op.outputs if t.shape == x.shape]
    if dx:
        sums = _statistics(rows, 2, fresh)
        parts.append(Part("reduction", rows, columns, reads, (sums,)))
        parts.append(Part("pointwise", x.numel, 1, (*reads, sums), tuple(dx[:1])))
    weights = tuple(t for t in op.outputs if t.shape != x.shape)
    if weights:
        count = max(t.numel for t in weights)
        across = max(1, x.numel // max(count, 1))
        group = "group_norm" in op.name
        parts.append(Part("reduction", count, across, reads[:4], weights, inner=group))
    return tuple(parts)


def _batch_norm(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    x, out = op.inputs[0], op.outputs[0]
    statistics = tuple(t for t in op.outputs[1:3] if t.numel)
    training = bool(op.args.get("training", op.args.get("train", False))) and statistics
    apply = Part("pointwise", out.numel, 1, (*_device(op.inputs), *statistics), (out,))
    if not training:
        return (apply,)
    rows = max(statistics[0].numel, 1)
    columns = max(1, x.numel // rows)
    inner = not x.is_channels_last
    return Part("reduction", rows, columns, (x,), statistics, inner), apply


def _batch_norm_backward(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    reads = _device(op.inputs)
    dy, x = reads[:2]
    channels = x.shape[1] if len(x.shape) > 1 else 1
    sums = tuple(t for t in op.outputs if t.shape != x.shape and t.numel)
    sums = sums or (_statistics(channels, 2, fresh),)
    dx = tuple(t for t in op.outputs if t.shape == x.shape)
    rows = max(sums[0].numel, 1) if len(sums) > 1 else channels
    columns = max(1, x.numel // rows)
    inner = not x.is_channels_last
    reduce = Part("reduction", rows, columns, (dy, x, *reads[2:]), sums, inner)
    if not dx:
        return (reduce,)
    return reduce, Part("pointwise", x.numel, 1, (*reads, *sums), dx[:1])


def _nll_forward(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """One value of each row, then their mean."""
    scores, target = op.inputs[0], op.inputs[1]
    rows = max(target.numel, 1)
    picked = TensorSpec((rows,), (1,), scores.dtype, scores.device, scores.storage)
    each = TensorSpec((rows,), (1,), "float32", "device", fresh())
    take = Part("pointwise", rows, 1, (picked, *_device(op.inputs[1:])), (each,))
    if max(t.numel for t in op.outputs) >= rows > 1:
        return (replace(take, writes=op.outputs),)
    return take, Part("reduction", 1, rows, (each, target), op.outputs)


def _mean_loss(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    source, out = op.inputs[0], op.outputs[0]
    if out.numel == source.numel:
        return (_pointwise(op, ""),)
    return (Part("reduction", 1, source.numel, _device(op.inputs), op.outputs),)


def _embedding_backward(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """The table's gradient is cleared, then rows are added to it with atomics."""
    grad, out = op.inputs[0], op.outputs[0]
    rows = replace(out, shape=grad.shape, stride=row_major(grad.shape))
    return (
        Part("pointwise", out.numel, 1, (), (out,)),
        Part("scatter", grad.numel, 1, (*_device(op.inputs), rows), (rows,)),
    )


def _dropout(op: Op, fresh: Fresh) -> tuple[Part, ...]:
    """A mask of random numbers, which must be kept, and the rest, which is cheap to do again."""
    x, (out, mask) = op.inputs[0], op.outputs[:2]
    return (
        Part("pointwise", mask.numel, 1, (), (mask,), random=True),
        Part("pointwise", out.numel, 1, (x, mask), (out,)),
    )


_SPECIAL: dict[str, Lowering] = {
    "native_dropout": _dropout,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax,
    "_log_softmax_backward_data": _softmax,
    "native_layer_norm": _row_norm,
    "native_group_norm": _row_norm,
    "_fused_rms_norm": _row_norm,
    "native_layer_norm_backward": _row_norm_backward,
    "native_group_norm_backward": _row_norm_backward,
    "_fused_rms_norm_backward": _row_norm_backward,
    "native_batch_norm": _batch_norm,
    "cudnn_batch_norm": _batch_norm,
    "_native_batch_norm_legit": _batch_norm,
    "_batch_norm_with_update": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "cudnn_batch_norm_backward": _batch_norm_backward,
    "batch_norm_backward": _batch_norm_backward,
    "nll_loss_forward": _nll_forward,
    "mse_loss": _mean_loss,
    "smooth_l1_loss": _mean_loss,
    "huber_loss": _mean_loss,
    "binary_cross_entropy": _mean_loss,
    "embedding_dense_backward": _embedding_backward,
}
