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

from gpuscope.cost.conv_depthwise import has_own, window_of
from gpuscope.cost.conv_shape import ConvShape, Pass
from gpuscope.cost.registry import Work

Way = Literal["own", "direct", "packed"]

_FEW_POSITIONS = 10_000
_LARGE_WINDOW = 37
_WALKED_COLUMNS = range(3, 9)


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
