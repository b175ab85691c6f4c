"""Convolutions whose groups cuDNN runs one after the other.

Kernels that take groups are few. Where there is none cuDNN launches an ordinary convolution for
each group, its conversions included, so that filters of each sample apart (one image of as many
groups as samples) are a long row of small kernels. Which have one was read off 190 passes of 4 to
32 groups, 32 to 512 channels wide, channels first, on an H200 (cuDNN 9.19):

* half precision: groups narrower than 64 channels, packed together;
* TF32: groups of 64 and 128 channels; of wider ones the forward pass alone, from 16 groups on;
* float32: none but the direct kernels (`conv_direct`, `conv_direct_results`), which are taken
  where they are quicker: 35 of 95 passes, 60 launch each group.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.conv_shape import ConvShape, Pass
from gpuscope.cost.registry import Work
from gpuscope.program.types import TensorSpec

_PACKED = 64
"""Channels of a group from which half precision has no kernel for all groups."""

_WIDEST = 128
"""Channels of a group up to which TF32 has one."""

_SIDE = 32
"""Longest side of a filter that tables of taps hold."""

_MANY = 16
"""Groups from which its forward pass has one whatever their width."""


def one_by_one(work: Work, shape: ConvShape, which: Pass, dtype: str) -> bool:
    """Whether each group is a convolution of its own.

    Args:
        work: the operator.
        shape: of all groups.
        which: the pass.
        dtype: that it is computed in.
    """
    if shape.groups < 2 or shape.depthwise or work.device.vendor != "NVIDIA":
        return False
    one_in, one_out = shape.channels_in // shape.groups, shape.channels_out // shape.groups
    narrow, wide = min(one_in, one_out), max(one_in, one_out)
    if which != "weight_gradient" and is_long(work, dtype):
        return True
    if dtype == "float32":
        return True
    if shape.channels_last:
        return False
    if dtype == "tf32":
        if which == "forward" and shape.groups >= _MANY and narrow >= _PACKED:
            return False
        return wide > _WIDEST
    return (one_in if which == "data_gradient" else wide) >= _PACKED


def is_long(work: Work, dtype: str) -> bool:
    """Whether a filter with groups is longer than kernels with tables of its taps can be.

    CUTLASS's "optimized" iterators keep a bit a tap of a side, 32 of them; beyond that cuDNN falls
    to kernels that work each address out, group by group, and cut no sum: the filters of 128 taps
    and 48 channels of wav2vec 2.0 take 0.66 ms a group however short the signal is. TF32's choice
    is not understood.

    Args:
        work: the convolution, or its gradients.
        dtype: that it is computed in.
    """
    weight = work.op.inputs[2 if "backward" in work.op.name else 1]
    grouped = work.op.args.get("groups", 1) != 1 and dtype != "tf32"
    return grouped and work.device.vendor == "NVIDIA" and max(weight.shape[2:], default=0) > _SIDE


def alone(shape: ConvShape) -> ConvShape:
    """One group of it."""
    return replace(
        shape,
        channels_in=shape.channels_in // shape.groups,
        channels_out=shape.channels_out // shape.groups,
        groups=1,
    )


def part(spec: TensorSpec, groups: int, filters: bool) -> TensorSpec:
    """One group's share of a tensor: of filters their results, of images their channels."""
    at = 0 if filters else 1
    sizes = tuple(n // groups if d == at else n for d, n in enumerate(spec.shape))
    steps, step = [], 1
    for n in reversed(sizes):
        steps.append(step)
        step *= n
    return replace(spec, shape=sizes, stride=tuple(reversed(steps)), storage=-1)
