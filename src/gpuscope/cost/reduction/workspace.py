"""Memory that a reduction borrows: partial results of blocks that share an output, and copies.

ATen's reductions (aten/src/ATen/native/cuda/Reduce.cuh, `ReduceConfig::global_memory_size`) let
several blocks share an output where each would else add up many values. Along the dense dimension
a block leaves one partial result for each output. Across it every thread of a block's row and each
value of its vector get a place for *every* output of the whole reduction: width times vector times
more than is used. A sum of 196,608 x 128 values in float32 over its rows, 512 bytes of result,
borrows 132 MiB on an H200, and the gradient of every bias is such a sum. Held against an
allocator's record of four programs (tests/cost/reduction/test_reduce_workspace.py): the same byte
for byte.

Whole numbers and masks are first copied to the result's type (ReduceOpsUtils.h, `make_reduction`):
counting a mask of 64 MiB, as the gradient of `amax` does, borrows 512 MiB. Extremes of a whole
tensor copy it first where it is not dense.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from gpuscope.cost.reduction.model import WIDENED, is_made_dense, is_widened, reduced_dims
from gpuscope.cost.reduction.plan import plan_of
from gpuscope.hardware import Device
from gpuscope.program.types import Op, TensorSpec

_SUMS = frozenset(f"aten::{n}" for n in (*WIDENED, "logsumexp"))
_NORMS = frozenset(("aten::linalg_vector_norm", "aten::norm"))
_EXTREMES = frozenset(("aten::amax", "aten::amin"))
_PLACES = frozenset(("aten::argmax", "aten::argmin"))
_MOMENTS = frozenset(f"aten::{n}" for n in ("var", "var_mean", "std", "std_mean"))

_PLACE_BYTES, _MOMENT_BYTES = 16, 16
"""A value and where it is; mean, sum of squares and two counts (`WelfordData`)."""


def borrowed_bytes(op: Op, device: Device) -> int:
    """Bytes that a reduction borrows while it runs; 0 for all other operators."""
    spec = op.inputs[0] if op.inputs else None
    if spec is None or spec.device != "device" or not spec.numel:
        return 0
    short, copied = op.name.removeprefix("aten::"), 0
    if short in WIDENED and op.outputs and is_widened(spec, op.outputs[0].dtype):
        wide = replace(spec, dtype=op.outputs[0].dtype)
        op, copied = replace(op, inputs=(wide, *op.inputs[1:])), int(spec.numel * wide.itemsize)
    elif is_made_dense(op):
        return spec.nbytes + partial_bytes(op, device)
    return copied + partial_bytes(op, device)


def partial_bytes(op: Op, device: Device) -> int:
    """Bytes for partial results; 0 for all other operators and where no output is shared."""
    each = _each_bytes(op)
    if not each or not device.compute_units:
        return 0
    spec = op.inputs[0]
    dims = reduced_dims(op, spec)
    units, threads = device.compute_units, device.max_threads_per_unit or 0
    plan, innermost = plan_of(spec, dims, op.name.removeprefix("aten::"), units, threads)
    if plan.shared_by < 2:
        return 0
    outputs = spec.numel // prod(spec.shape[d] for d in dims)
    across = 1 if innermost else plan.threads // plan.down * plan.vector
    return each * outputs * plan.shared_by * across


def _each_bytes(op: Op) -> int:
    """Bytes of a partial result, a value of the type that is accumulated in; 0: no reduction."""
    if op.name in _SUMS or op.name in _NORMS:
        return max(4, _itemsize(op.inputs[0]))
    if op.name in _EXTREMES:
        return _itemsize(op.inputs[0])
    if op.name in _PLACES:
        return _PLACE_BYTES
    return _MOMENT_BYTES if op.name in _MOMENTS else 0


def _itemsize(spec: TensorSpec) -> int:
    return int(spec.itemsize)
