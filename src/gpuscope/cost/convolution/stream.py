"""Kernels of convolutions that only move what they read: layouts, padding, sums over slices."""

from __future__ import annotations

from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel


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


def paced(work: Work, kernel: Kernel, elements: float, key: str, base_s: float = 0.0) -> Kernel:
    """A kernel that is bound by elements where they take longer than its bytes.

    Args:
        work: the convolution.
        kernel: as its bytes pace it.
        elements: that it works on.
        key: of its constants, `convolution.{key}.elements_per_clock_per_unit`.
        base_s: that it takes beside.
    """
    if work.device.clock_hz is None:
        return kernel
    a_clock = work.constants.value(f"convolution.{key}.elements_per_clock_per_unit")
    elements_s = elements / (a_clock * work.device.clock_hz * work.units)
    more_s = base_s + max(elements_s - kernel.memory_s, 0.0)
    return kernel.lasting(kernel.duration_s + more_s, compute_s=elements_s)
