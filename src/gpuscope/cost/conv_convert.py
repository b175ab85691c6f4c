"""Kernels that turn a convolution's tensors from channels first to channels last, and back.

Tensor-core kernels want channels innermost; cuDNN converts channels-first tensors around them.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.conv_depthwise import stream
from gpuscope.cost.matmul import Operand
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec


def conversions(
    work: Work, first: Operand, second: Operand, out: TensorSpec
) -> tuple[list[Kernel], list[Kernel]]:
    """Kernels that turn channels-first operands for a product, and its result back."""
    before = [
        _convert(work, operand.spec, "nchw_to_nhwc")
        for operand in (first, second)
        if prod(operand.spec.shape[2:]) > 1
    ]
    after = [_convert(work, out, "nhwc_to_nchw")] if prod(out.shape[2:]) > 1 else []
    return before, after


def conversions_s(work: Work, first: Operand, second: Operand, out: TensorSpec) -> float:
    """Time of the conversions around a product."""
    return sum(k.duration_s for part in conversions(work, first, second, out) for k in part)


def _convert(work: Work, spec: TensorSpec, name: str) -> Kernel:
    """A kernel that turns one layout into the other through shared memory.

    It works on squares of 32 channels by 32 positions, whole ones: few channels or small filters
    waste most of it. Bound by bytes for 4-byte elements, by elements for smaller ones.
    """
    kernel = stream(work, name, spec.nbytes, spec.nbytes, spec.dtype, spec.numel)
    if work.device.clock_hz is None:
        return kernel
    a_clock = work.constants.value("convolution.convert.elements_per_clock_per_unit")
    channels, positions = spec.shape[1], prod(spec.shape[2:])
    slots = spec.shape[0] * ceil(channels / 32) * ceil(positions / 32) * 1024
    elements_s = slots / (a_clock * work.device.clock_hz * work.units)
    if elements_s <= kernel.memory_s:
        return kernel
    scale = (kernel.duration_s - kernel.memory_s + elements_s) / kernel.duration_s
    return replace(
        kernel,
        duration_s=kernel.duration_s * scale,
        low_s=kernel.low_s * scale,
        high_s=kernel.high_s * scale,
        compute_s=elements_s,
    )
