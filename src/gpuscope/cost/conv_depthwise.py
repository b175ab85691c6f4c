"""Convolution kernels without matrix units: depthwise ones, and those that only move bytes."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.conv_shape import ConvShape, Pass
from gpuscope.cost.gemm import rate_and_unit
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.program.types import TensorSpec

_SHORT = {"forward": "fprop", "data_gradient": "dgrad", "weight_gradient": "wgrad"}


def stream(
    work: Work,
    name: str,
    read: float,
    written: float,
    dtype: str,
    numel: int,
    key: str = "convolution.stream",
) -> Kernel:
    """A kernel that only moves bytes: bias, conversions."""
    constants = work.constants
    floor = constants.value(f"{key}.floor_s")
    efficiency = constants.value(f"{key}.bandwidth_efficiency")
    memory = (read + written) / (work.bandwidth * efficiency)
    duration = floor + memory
    spread = constants.spread("convolution.stream.scale")
    grid = max(1, -(-numel // 1024))
    return Kernel(
        name=name,
        kind="pointwise",
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1 + spread),
        high_s=duration * (1 + spread),
        flops=float(numel) if "bias" in name else 0.0,
        read_bytes=float(read),
        written_bytes=float(written),
        least_bytes=float(read + written),
        grid=grid,
        block=256,
        waves=grid / (work.units * 8.0),
        limiter="memory" if memory > floor else "latency",
        dtype=dtype,
        memory_s=memory,
        origin="calibrated" if constants.calibrated else "estimated",
    )


def depthwise(
    work: Work,
    shape: ConvShape,
    which: Pass,
    first: TensorSpec,
    second: TensorSpec,
    out: TensorSpec,
) -> Kernel:
    """One channel at a time on the vector lanes.

    Time goes with the multiply-adds, plus a fixed effort for each output value (index
    arithmetic). The weight gradient, channels first, has a block for each weight instead.
    """
    layout = "nhwc" if shape.channels_last else "nchw"
    key = f"convolution.depthwise.{which}.{layout}"
    kernel = stream(
        work,
        f"conv_depthwise_{_SHORT[which]}",
        first.nbytes + second.nbytes,
        out.nbytes,
        first.dtype,
        max(first.numel, out.numel),
        key,
    )
    tiled = _tiled_cycles(work, shape, which, first)
    if tiled and work.device.clock_hz is not None:
        compute = out.numel * tiled / (work.units * work.device.clock_hz)
    elif which == "weight_gradient" and layout == "nchw" and work.device.clock_hz is not None:
        compute = _weight_gradient_s(work, shape, out, work.device.clock_hz)
    else:
        lanes, _ = rate_and_unit(work.device, "float32")
        share = work.constants.value(f"{key}.efficiency")
        effort = work.constants.value(f"{key}.multiplies_per_output") * out.numel
        compute = (shape.flops + 2.0 * effort) / (lanes * share)
    floor = kernel.duration_s - kernel.memory_s
    duration = floor + max(compute, kernel.memory_s)
    limiter: Limiter = "compute" if compute > kernel.memory_s else kernel.limiter
    spread = work.constants.spread(f"convolution.depthwise.{which}.scale")
    return replace(
        kernel,
        duration_s=duration,
        low_s=duration / (1 + spread),
        high_s=duration * (1 + spread),
        flops=shape.flops,
        compute_s=compute,
        limiter=limiter,
        kind="convolution",
    )


def _tiled_cycles(work: Work, shape: ConvShape, which: Pass, first: TensorSpec) -> float:
    """Clocks a result where cuDNN has a kernel that tiles in shared memory; 0 elsewhere.

    float16, channels first, 3 x 3 or 5 x 5, no stride (PyTorch's `use_cudnn_depthwise`).
    """
    if which == "weight_gradient" or shape.channels_last or first.dtype != "float16":
        return 0.0
    if shape.taps not in (9, 25) or shape.strides != 1 or shape.channels_in < 32:
        return 0.0
    if work.device.vendor != "NVIDIA":
        return 0.0
    get = work.constants.value
    value = get("convolution.depthwise.tiled.cycles")
    return value + shape.taps * get("convolution.depthwise.tiled.tap_cycles")


def _weight_gradient_s(work: Work, shape: ConvShape, out: TensorSpec, clock_hz: float) -> float:
    """PyTorch's own kernel: one block a weight walks over all images and positions.

    A few blocks fit on a multiprocessor; each needs so many clocks for a multiply-add, and some
    to begin each image.
    """
    key = "convolution.depthwise.weight_gradient.nchw"
    blocks = work.constants.value(f"{key}.blocks_per_unit") * work.units
    multiply = work.constants.value(f"{key}.clocks_per_multiply")
    begin = work.constants.value(f"{key}.clocks_per_image")
    clocks = shape.images * (shape.positions_out * multiply + begin)
    return ceil(out.numel / blocks) * clocks / clock_hz
