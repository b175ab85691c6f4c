"""Kernels that turn a convolution's tensors from channels first to channels last, and back.

Tensor-core kernels want channels innermost; cuDNN converts channels-first tensors around them.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.convolution.stream import paced, stream
from gpuscope.cost.matmul.model import Operand
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec


def conversions(
    work: Work, first: Operand, second: Operand, out: TensorSpec, wide: int = 0, but: int = -1
) -> tuple[list[Kernel], list[Kernel]]:
    """Kernels that turn channels-first operands for a product, and its result back.

    Args:
        work: the convolution.
        first, second: operands.
        out: result.
        wide: channels that those of each tensor's groups are spread over on the way.
        but: which of the three something else lays out.
    """
    before, after = [], []
    for at, spec in enumerate((first.spec, second.spec, out)):
        if at == but or prod(spec.shape[2:]) == 1:
            continue
        if at < 2:
            before.append(_convert(work, spec, "nchw_to_nhwc", wide))
        else:
            after.append(_convert(work, spec, "nhwc_to_nchw", wide))
    return before, after


def conversions_s(work: Work, first: Operand, second: Operand, out: TensorSpec) -> float:
    """Time of the conversions around a product."""
    return sum(k.duration_s for part in conversions(work, first, second, out) for k in part)


def _convert(work: Work, spec: TensorSpec, name: str, wide: int = 0) -> Kernel:
    """A kernel that turns one layout into the other through shared memory.

    It works on squares of 32 channels by 32 positions, whole ones: few channels or small filters
    waste most of it. Bound by bytes for 4-byte elements, by elements for smaller ones. `wide`: the
    channels that it spreads them over, at a pace of its own: 250 to 450 elements a nanosecond on an
    H200 (24 recorded launches of groups of 6 to 44 channels), where others convert 600.
    """
    channels, positions = spec.shape[1], prod(spec.shape[2:])
    there = spec.nbytes * max(wide / channels, 1.0)
    kernel = stream(work, name, spec.nbytes, there, spec.dtype, spec.numel)
    slots = spec.shape[0] * ceil(max(channels, wide) / 32) * ceil(positions / 32) * 1024
    key = "convert.wide" if wide > channels and name == "nchw_to_nhwc" else "convert"
    return paced(work, kernel, slots, key)
