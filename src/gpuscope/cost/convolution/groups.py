"""Convolutions whose groups cuDNN runs one after the other.

Kernels that take groups are few. Where there is none cuDNN launches an ordinary convolution for
each group, its conversions or cuts included, so that filters of each sample apart (one image of as
many groups as samples) are a long row of small kernels. Which have one was read off 1,500 recorded
passes of an H200 (cuDNN 9.19); four in five of half precision follow, of TF32 seven in ten:

* half precision: groups narrower than 64 channels are packed together (`packed`), more than
  two of them; of 64 channels with more than one image; wider ones where images are many (forward);
* channels last, forward: wider groups of few results are cut out and launched each;
* a gradient of one tap a group is launched each where groups are narrow;
* TF32: groups up to 128 channels, channels first more than five of them; of wider ones the
  forward pass alone, from 16 groups on;
* float32: none but the direct kernels (`direct`, `direct_results`), which are taken where
  they are quicker.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_PACKED = 64
"""Channels of a group from which half precision has no kernel for all groups."""

_WIDEST = 128
"""Channels of a group up to which TF32 has one."""

_FEW, _FEW_TF32 = 2, 5
"""Groups up to which each is launched."""

_SPREAD, _FEW_IMAGES = 46, 8
"""Wider groups of so few images are launched each, in half precision forward."""

_TILE, _FEW_RESULTS = 31, 500_000
"""Channels from which, and results up to which, groups are cut out forward, channels last."""

_TABLED = 16
"""Channels of a group up to which packed kernels take filters of any length."""

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
    if dtype == "float32" or (which != "weight_gradient" and is_long(work, dtype)):
        return True
    one_in, one_out = shape.channels_in // shape.groups, shape.channels_out // shape.groups
    narrow, wide = min(one_in, one_out), max(one_in, one_out)
    if shape.taps == 1 and which != "forward":
        return wide < _TILE
    if dtype == "tf32":
        if which == "forward" and shape.groups >= _MANY and narrow >= _PACKED:
            return False
        return wide > _WIDEST or (shape.groups <= _FEW_TF32 and not shape.channels_last)
    if shape.groups <= _FEW:
        return shape.taps > 1
    if narrow == wide == _PACKED and (shape.images > 1 or which == "weight_gradient"):
        return False
    if shape.channels_last:
        results = shape.images * shape.positions_out * shape.channels_out
        few = which == "forward" and results <= _FEW_RESULTS
        return few and shape.taps > 1 and wide >= _TILE
    if which == "forward":
        return wide > _SPREAD and shape.images <= _FEW_IMAGES
    return (one_in if which == "data_gradient" else wide) >= _PACKED


def is_long(work: Work, dtype: str) -> bool:
    """Whether a filter with groups is longer than kernels with tables of its taps can be.

    CUTLASS's "optimized" iterators keep a bit a tap of a side, 32 of them; beyond that cuDNN falls
    to kernels that work each address out, group by group, and cut no sum: the filters of 128 taps
    and 48 channels of wav2vec 2.0 take 0.66 ms a group however short the signal is. Groups of up to
    16 channels have kernels with tables in memory (10 of 10 recorded forward passes of 41 to 128
    taps, 4 of 10 data gradients).
    TF32's choice is not understood.

    Args:
        work: the convolution, or its gradients.
        dtype: that it is computed in.
    """
    weight = work.op.inputs[2 if "backward" in work.op.name else 1]
    grouped = work.op.args.get("groups", 1) != 1 and dtype != "tf32"
    if not grouped or work.device.vendor != "NVIDIA" or max(weight.shape[2:], default=0) <= _SIDE:
        return False
    return weight.shape[1] > _TABLED


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


def sliced(work: Work, spec: TensorSpec) -> Kernel:
    """The copy of one group's channels out of channels-last data, or back (`nhwcSliceCKernel`)."""
    return stream(
        work, "slice_group", spec.nbytes, spec.nbytes, spec.dtype, spec.numel, "convolution.slice"
    )
