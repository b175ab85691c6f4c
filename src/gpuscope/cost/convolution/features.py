"""What the learned residual looks at of a convolution, beside what it looks at of every operator.

Which kernel cuDNN takes follows from more than a tensor's shape tells: from the channels of a
group and their alignment, from filter, stride, dilation and padding, from the product that a pass
is and how many tiles of it there are. As in `gpuscope.cost.residual_features` sizes are base-2
logarithms and flags 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, gcd, log2

from gpuscope.cost.convolution.shape import ConvShape, Pass, conv_shape, gradients_asked
from gpuscope.cost.matmul.model import compute_dtype
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel

_DTYPES = ("float32", "tf32", "bfloat16", "float16")
_TILE = 128
"""Side of a large tile, by which tiles are counted."""

_LEAST_S = 1e-8
"""Shorter times are all the same."""

_OPERATORS = ("aten::convolution", "aten::convolution_backward")

NAMES: tuple[str, ...] = tuple(
    f"convolution.{name}"
    for name in (
        "forward",
        "data_gradient",
        "weight_gradient",
        "bias",
        "channels_last",
        *_DTYPES,
        "images",
        "channels_in",
        "channels_out",
        "groups",
        "alignment_in",
        "alignment_out",
        "positions_in",
        "positions_out",
        "width_in",
        "width_out",
        "taps",
        "side_first",
        "side_last",
        "stride",
        "dilation",
        "padding",
        "rows",
        "columns",
        "depth",
        "tiles",
        "depth_per_tile",
        "patches_bytes",
        "filter_bytes",
        "longest",
        "rest",
    )
)
"""The features in the order in which `features` gives them."""

_NONE = (0.0,) * len(NAMES)


def features(work: Work, kernels: Sequence[Kernel]) -> tuple[float, ...]:
    """The figures of `NAMES`; zeros where the operator is no convolution.

    Args:
        work: the operator.
        kernels: what its physical model says that it launches.
    """
    if work.op.name not in _OPERATORS:
        return _NONE
    op = work.op
    backward = op.name == "aten::convolution_backward"
    y, x, weight = op.inputs[:3] if backward else (op.outputs[0], *op.inputs[:2])
    shape = conv_shape(op, x, weight, y)
    transposed = bool(op.args.get("transposed"))
    asked = gradients_asked(op) if backward else (transposed, False, len(op.inputs) > 2)
    which: Pass = "data_gradient" if asked[0] != (backward and transposed) else "forward"
    if backward and asked[1] and not asked[0]:
        which = "weight_gradient"
    small, large = (x, y) if transposed else (y, x)
    dtype = compute_dtype(work, x.dtype, "tf32_cudnn", True)
    one_in, one_out = shape.channels_in // shape.groups, shape.channels_out // shape.groups
    patches = shape.images * shape.positions_out * shape.channels_in * shape.taps * x.itemsize
    return (
        float(not backward),
        float(asked[0]),
        float(asked[1]),
        float(asked[2]),
        float(shape.channels_last),
        *(float(dtype == name) for name in _DTYPES),
        _log(shape.images),
        _log(one_in),
        _log(one_out),
        _log(shape.groups),
        _alignment(one_in),
        _alignment(one_out),
        _log(shape.positions_in),
        _log(shape.positions_out),
        _log(large.shape[-1]),
        _log(small.shape[-1]),
        _log(shape.taps),
        _log(weight.shape[2]),
        _log(weight.shape[-1]),
        *(_log(_largest(op.args.get(name))) for name in ("stride", "dilation", "padding")),
        *_of_product(shape, which),
        _log(patches),
        _log(weight.nbytes),
        *_times(kernels),
    )


def _of_product(shape: ConvShape, which: Pass) -> tuple[float, ...]:
    """Rows, columns, depth of one group's product, tiles of all, depth for each tile."""
    rows, columns, depth = shape.product(which)
    tiles = ceil(rows / _TILE) * ceil(columns / _TILE) * shape.groups
    return _log(rows), _log(columns), _log(depth), _log(tiles), _log(depth / max(tiles, 1))


def _times(kernels: Sequence[Kernel]) -> tuple[float, float]:
    """Microseconds of the longest kernel, and of all others."""
    longest_s = max(k.duration_s for k in kernels)
    rest_s = sum(k.duration_s for k in kernels) - longest_s
    return log2(max(longest_s, _LEAST_S) * 1e6), log2(max(rest_s, _LEAST_S) * 1e6)


def _alignment(channels: int) -> float:
    """Logarithm of the largest power of two, up to 64, that divides them."""
    return log2(gcd(channels, 64)) if channels else 0.0


def _largest(value: object) -> int:
    if isinstance(value, (tuple, list)):
        return max((v for v in value if isinstance(v, int)), default=0)
    return value if isinstance(value, int) else 0


def _log(value: float) -> float:
    return log2(1 + value) if value > 0 else 0.0
