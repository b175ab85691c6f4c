"""What PyTorch copies before a convolution, so that it is dense in the order that was chosen.

A slice of the input, a gradient that comes channels first where channels are last: a kernel of
ATen's own. Signals of one dimension are always made dense channels first ("avoid accidentally going
through NHWC" in Convolution.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuscope.cost.bandwidth import is_hot
from gpuscope.cost.convolution.shape import channels_innermost
from gpuscope.cost.copy.model import copy_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec


def made_dense(work: Work, channels_last: bool, positions: Iterable[int]) -> list[Kernel]:
    """The copies of those inputs that are not dense in the order of a convolution.

    Args:
        work: the convolution.
        channels_last: the order that it runs in.
        positions: of the inputs that it reads.
    """
    kernels = []
    for at in positions:
        spec = work.op.inputs[at]
        if spec.device != "device" or not spec.numel:
            continue
        dense = _dense(spec, channels_last)
        if any(
            size > 1 and one != other
            for size, one, other in zip(spec.shape, spec.stride, dense.stride, strict=True)
        ):
            reason = Text("made contiguous first")
            kernels.append(copy_kernel(work, spec, dense, is_hot(work, at), reason))
    return kernels


def _dense(spec: TensorSpec, channels_last: bool) -> TensorSpec:
    order: Iterable[int] = reversed(range(len(spec.shape)))
    if channels_last and len(spec.shape) > 3:
        order = channels_innermost(spec)
    stride, step = [0] * len(spec.shape), 1
    for dim in order:
        stride[dim] = step
        step *= max(spec.shape[dim], 1)
    return replace(spec, stride=tuple(stride), storage=-1)
