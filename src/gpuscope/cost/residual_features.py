"""What the learned residual looks at: an operator and its kernels, as plain numbers.

Sizes are base-2 logarithms, shares are logarithms of a ratio, flags are 0 or 1. What an operator
lacks (a second input, a tile) is 0. Every figure comes from the shapes or from what the physical
model has computed on the way; none was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, gcd, log2, prod

from gpuscope.cost.convolution.features import NAMES as OF_CONVOLUTIONS
from gpuscope.cost.convolution.features import features as of_convolution
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_DIMS = 4
"""Innermost sizes of a tensor that are told one by one; the others as their product."""

_LEAST_SHARE = 2.0**-10
"""Shares below this are all the same."""

_LIMITERS = ("compute", "tensor_core", "memory", "l2", "issue", "latency", "launch")
_DTYPES = ("float32", "float16", "bfloat16", "tf32", "float8_e4m3fn", "int64")
_FLAGS = (
    "is_causal",
    "transposed",
    "keepdim",
    "descending",
    "train",
    "training",
    "bidirectional",
    "amsgrad",
    "batch_first",
    "align_corners",
)
_NUMBERS = ("groups", "stride", "kernel_size", "k", "num_layers", "hidden_size")


def _tensor_names(name: str) -> tuple[str, ...]:
    dims = tuple(f"{name}.size_{i + 1}_from_end" for i in range(_DIMS))
    return (
        *dims,
        f"{name}.outer",
        f"{name}.elements",
        f"{name}.layout",
        f"{name}.alignment",
        f"{name}.itemsize",
    )


NAMES: tuple[str, ...] = (
    "duration",
    "compute_share",
    "memory_share",
    "least_bytes",
    "bandwidth_share",
    "flops",
    "flops_per_byte",
    "grid",
    "block",
    "waves",
    "tail",
    "occupancy",
    "tile_0",
    "tile_1",
    "tile_2",
    "kernels",
    *(f"limiter.{name}" for name in _LIMITERS),
    *(f"dtype.{name}" for name in _DTYPES),
    *_tensor_names("input_0"),
    *_tensor_names("input_1"),
    *_tensor_names("output_0"),
    "inputs",
    "outputs",
    "shared_memory",
    "hot",
    "dim_from_end",
    "outputs_asked",
    *(f"flag.{name}" for name in _FLAGS),
    *(f"number.{name}" for name in _NUMBERS),
    *OF_CONVOLUTIONS,
)
"""The features in the order in which `features` gives them."""


def features(work: Work, kernels: Sequence[Kernel]) -> tuple[float, ...]:
    """The figures of `NAMES` for an operator and what it launches (one kernel at least)."""
    inputs, outputs = work.inputs, work.outputs
    return (
        *_of_kernels(work, kernels),
        *_of_tensor(inputs, 0),
        *_of_tensor(inputs, 1),
        *_of_tensor(outputs, 0),
        float(len(inputs)),
        float(len(outputs)),
        _shared(work),
        _hot_share(work),
        *_of_arguments(work),
        *of_convolution(work, kernels),
    )


def _of_kernels(work: Work, kernels: Sequence[Kernel]) -> tuple[float, ...]:
    longest = max(kernels, key=lambda k: k.duration_s)
    total_s = sum(k.duration_s for k in kernels)
    least = sum(k.least_bytes for k in kernels)
    flops = sum(k.flops for k in kernels)
    waves = longest.waves
    tile = (*longest.tile, 0, 0, 0)
    return (
        log2(max(total_s, 1e-9) * 1e6),
        _share(sum(k.compute_s for k in kernels), total_s),
        _share(sum(k.memory_s for k in kernels), total_s),
        _log(least),
        _share(least / work.bandwidth, total_s),
        _log(flops),
        _log(flops / least) if least else 0.0,
        _log(longest.grid),
        _log(longest.block),
        _log(waves * 16),
        (ceil(waves) - waves) / ceil(waves) if 0 < waves < 16 else 0.0,
        longest.occupancy or 0.0,
        _log(tile[0]),
        _log(tile[1]),
        _log(tile[2]),
        float(len(kernels)),
        *(float(longest.limiter == name) for name in _LIMITERS),
        *(float(longest.dtype == name) for name in _DTYPES),
    )


def _of_tensor(specs: Sequence[TensorSpec], at: int) -> tuple[float, ...]:
    if at >= len(specs):
        return (0.0,) * (_DIMS + 5)
    spec = specs[at]
    shape = spec.shape[::-1]
    dims = tuple(_log(shape[i]) if i < len(shape) else 0.0 for i in range(_DIMS))
    return (
        *dims,
        _log(prod(shape[_DIMS:])),
        _log(spec.numel),
        _layout(spec),
        _alignment(spec),
        float(spec.itemsize),
    )


def _layout(spec: TensorSpec) -> float:
    """0 rows, 1 channels innermost, 2 dense in another order, 3 broadcast, 4 with gaps."""
    if spec.is_contiguous:
        return 0.0
    if spec.is_channels_last:
        return 1.0
    if spec.is_dense:
        return 2.0
    return 3.0 if 0 in spec.stride else 4.0


def _alignment(spec: TensorSpec) -> float:
    """Logarithm of the largest power of two, up to 64, that divides the innermost size."""
    inner = next((s for s, st in zip(spec.shape, spec.stride, strict=True) if st == 1), 1)
    return log2(gcd(inner, 64)) if inner else 0.0


def _shared(work: Work) -> float:
    """1 where an output lies in an input's memory."""
    known = {t.storage for t in work.inputs if t.storage >= 0}
    return float(any(t.storage in known for t in work.outputs))


def _hot_share(work: Work) -> float:
    """Share of the inputs' bytes that are likely in L2."""
    total = sum(t.touched_bytes for t in work.op.inputs)
    flags = work.hot or (False,) * len(work.op.inputs)
    warm = sum(t.touched_bytes for t, hot in zip(work.op.inputs, flags, strict=True) if hot)
    return warm / total if total else 0.0


def _of_arguments(work: Work) -> tuple[float, ...]:
    args = work.op.args
    mask = args.get("output_mask", args.get("grad_input_mask"))
    asked = sum(bool(x) for x in mask) if isinstance(mask, (tuple, list)) else 0
    return (
        _dim_from_end(work),
        float(asked),
        *(float(args.get(name) is True) for name in _FLAGS),
        *(_log(_largest(args.get(name))) for name in _NUMBERS),
    )


def _dim_from_end(work: Work) -> float:
    """How far from the innermost the first dimension is that an operator works along; 0 none."""
    dim = work.op.args.get("dim")
    if isinstance(dim, (tuple, list)) and dim:
        dim = dim[0]
    if not isinstance(dim, int) or isinstance(dim, bool) or not work.inputs:
        return 0.0
    rank = len(work.inputs[0].shape)
    return float(-dim if dim < 0 else rank - dim)


def _largest(value: object) -> float:
    if isinstance(value, (tuple, list)):
        return max((_largest(v) for v in value), default=0.0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _log(value: float) -> float:
    return log2(1 + value) if value > 0 else 0.0


def _share(part_s: float, total_s: float) -> float:
    return log2(max(part_s / total_s, _LEAST_SHARE)) if total_s > 0 else 0.0
