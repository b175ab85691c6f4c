"""What a device's units can do, and how many of them a kernel keeps."""

from __future__ import annotations

from gpuscope.cost.gemm import rate_and_unit
from gpuscope.cost.types import Kernel
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, Device

L2_CONSTANTS = ("bandwidth.l2_bytes_per_clock", "matmul.bf16.l2_bytes_per_clock_per_unit")
"""Bytes that one multiprocessor draws from L2 each clock: in streaming kernels, in products."""


def sm_share(kernel: Kernel, units: int) -> float:
    """Return the share of the multiprocessors that have a block, averaged over a kernel's waves.

    NaN where grid or waves are not known.
    """
    if kernel.grid <= 0 or kernel.waves <= 0:
        return float("nan")
    full = int(kernel.waves + 1e-9)
    rest = kernel.waves - full
    if rest <= 1e-9:
        return 1.0
    blocks = rest / kernel.waves * kernel.grid
    return (full + min(1.0, blocks / units)) / (full + 1)


def l2_bytes_per_s(device: Device | None, calibration: Calibration | None) -> float | None:
    """Return what the L2 cache hands to all multiprocessors together, at its boost clock.

    Streaming kernels and matrix products were fitted apart; what either reached the cache can do.
    None where no calibration tells it, or the device's clock or units are not known.
    """
    if device is None or calibration is None or not device.clock_hz or not device.compute_units:
        return None
    per_clock = max((calibration.value(n) for n in L2_CONSTANTS if n in calibration), default=0.0)
    return per_clock * device.clock_hz * device.compute_units or None


def unit_of(device: Device | None, dtype: str) -> str:
    """Return which unit multiplies matrices of a dtype: "matrix", "vector", or "" if unknown."""
    if device is None or not dtype:
        return ""
    try:
        return rate_and_unit(device, dtype)[1]
    except GpuscopeError:
        return ""


def peaks_origin(device: Device | None) -> str:
    """Where a device's peak rates come from; "datasheet" only where its maker states them all."""
    found = {device.origin(rate) or "" for rate, _ in device.peaks} if device else set()
    return next(iter(found)) if len(found) == 1 else max(found - {"datasheet"}, default="")


def has_matrix_unit(device: Device | None) -> bool:
    """Return whether a device multiplies 16-bit matrices on units of their own."""
    return "matrix" in (unit_of(device, "float16"), unit_of(device, "bfloat16"))
