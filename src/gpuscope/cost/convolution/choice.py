"""Which sort of kernel cuDNN takes for a pass.

A filter a channel over channels-last data has kernels of its own for squares of 1, 3, 5 and 7 taps
a side that are not dilated. Of 480 recorded passes of others on an H200 (cuDNN 9.19; 1 x 3 to
31 x 31, dilated by 1 to 3):

* half precision, forward: the direct kernel in 126 of 126, but for dilated squares of more than 37
  taps, which are packed like groups (14 of 16);
* half precision, data gradient: one kernel that walks any window, in 133 of 138;
* half precision, weight gradient: the direct kernel up to 10,000 positions of all images (41 of
  57), packed like groups beyond (57 of 83; the rest is split);
* float32: the direct kernels in 151 of 196; data gradients of 3 to 8 columns walk (24 of 25).
"""

from __future__ import annotations

from math import prod
from typing import Literal

from gpuscope.cost.convolution.depthwise import has_own, window_of
from gpuscope.cost.convolution.groups import is_long
from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.registry import Work

Way = Literal["own", "direct", "packed"]

_FEW_POSITIONS = 10_000
_LARGE_WINDOW = 37
_WALKED_COLUMNS = range(3, 9)
_LITTLE = 2e7
"""Multiply-adds up to which groups may be summed directly."""

_LEAST = 3e6
"""Those up to which half precision may."""

_FEW_CHANNELS, _LITTLE_PLAIN = 8, 1.5e8
_SOME_GROUPS, _NARROW = 7, 10
_FEW_RESULTS = 200_000
"""Results of a grouped convolution that tensor cores leave its weights' gradient to direct sums."""


def depthwise_way(work: Work, shape: ConvShape, which: Pass, itemsize: float) -> Way:
    """How a filter a channel is run: by kernels of its own, direct ones, or as packed groups.

    Args:
        work: the convolution.
        shape: its sizes.
        which: the pass.
        itemsize: bytes of an element.
    """
    if not shape.channels_last or work.device.vendor != "NVIDIA" or has_own(work.op):
        return "own"
    window, dilation = window_of(work.op)
    half = itemsize <= 2
    if which == "data_gradient":
        return "own" if half or window[-1] in _WALKED_COLUMNS else "direct"
    if not half:
        return "direct"
    if which == "forward":
        return "packed" if prod(window) > _LARGE_WINDOW and max(dilation) > 1 else "direct"
    return "direct" if shape.images * shape.positions_out <= _FEW_POSITIONS else "packed"


def may_be_direct(work: Work, shape: ConvShape, which: Pass, dtype: str) -> bool:
    """Whether groups may take cuDNN's direct kernel, where that is quicker.

    Of 140 recorded passes in float32 35 did: forward those of one image, data gradients those of
    little work; of 100 in TF32, channels first, 14.

    Args:
        work: the convolution.
        shape: its sizes.
        which: forward, or the data gradient.
        dtype: that it is computed in.
    """
    if shape.groups < 2 or work.device.vendor != "NVIDIA" or is_long(work, dtype):
        return False
    macs = shape.flops / 2.0
    if dtype == "float32":
        if which == "forward":
            return shape.images == 1 and macs <= _LITTLE
        return True
    if dtype != "tf32":
        return macs <= _LEAST
    if shape.channels_last or shape.groups < _SOME_GROUPS:
        return False
    if which == "forward":
        return shape.images <= 2 and shape.channels_in // shape.groups <= _NARROW
    return shape.taps > 1 and macs <= _LITTLE


def may_sum_directly(work: Work, shape: ConvShape, dtype: str, dims: int) -> bool:
    """Whether weights' gradients may take cuDNN's direct kernel, where that is quicker.

    Of groups on tensor cores only small ones do: 76 of 159 recorded ones of fewer results, 12 of
    293 larger ones.

    Args:
        work: the convolution.
        shape: its sizes.
        dtype: that it is computed in.
        dims: of its tensors.
    """
    if work.device.vendor != "NVIDIA" or dims > 4:
        return False
    if shape.groups == 1:
        return not shape.channels_last
    results = shape.images * shape.positions_out * shape.channels_out
    return dtype == "float32" or results <= _FEW_RESULTS


def may_add_up(work: Work, shape: ConvShape, dtype: str, dims: int) -> bool:
    """Whether TF32's data gradient may be float32's that adds in memory, where that is quicker.

    Channels first: 21 of 32 recorded passes of up to 8 input channels or of little work.

    Args:
        work: the convolution.
        shape: its sizes.
        dtype: that it is computed in.
        dims: of its tensors.
    """
    if dtype != "tf32" or shape.channels_last or work.device.vendor != "NVIDIA" or dims > 4:
        return False
    few = shape.channels_in <= _FEW_CHANNELS
    return shape.groups == 1 and (few or shape.flops / 2.0 <= _LITTLE_PLAIN)


def may_add_tiles(work: Work, shape: ConvShape, dtype: str, dims: int) -> bool:
    """Whether weights' gradients may be added up by tiles of positions, where that is quicker.

    Of 98 recorded ones in float32 and TF32 that were, 87 % where the model of that kernel is the
    quickest; of TF32 that multiply on tensor cores 17 of 99 are taken for it.

    Args:
        work: the convolution.
        shape: its sizes.
        dtype: that it is computed in.
        dims: of its tensors.
    """
    if work.device.vendor != "NVIDIA" or dims != 4 or shape.groups > 1:
        return False
    if dtype == "tf32":
        return not shape.channels_last and (shape.taps > 1 or shape.strides > 1)
    return dtype == "float32"
