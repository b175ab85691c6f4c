"""What a device's units can do, and what a kernel asks of each."""

from __future__ import annotations

from gpuscope.analysis.grouping import group_key
from gpuscope.analysis.l2_traffic import l2_bytes
from gpuscope.analysis.roofs import MATRIX_KINDS, Roofs
from gpuscope.analysis.use_types import KernelUse
from gpuscope.cost.matmul.gemm import rate_and_unit
from gpuscope.cost.types import Kernel
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, Device
from gpuscope.timeline.types import Timeline

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


def kernel_use(kernel: Kernel, device: Device | None, roofs: Roofs) -> KernelUse:
    """Return what a launch asks of each unit.

    Args:
        kernel: as its cost model has it.
        device: what it runs on.
        roofs: peaks of that device.
    """
    matrix = kernel.kind in MATRIX_KINDS
    peak = roofs.peak_flops_per_s(kernel.dtype, kernel.kind) if matrix else None
    at_peak_s = kernel.flops / peak if peak else 0.0
    unit = unit_of(device, kernel.dtype) if matrix else ""
    issue_s = kernel.compute_s if kernel.lane == "compute" and not matrix else 0.0
    share = sm_share(kernel, device.compute_units) if device and device.compute_units else None
    return KernelUse(
        at_peak_s if unit == "matrix" else 0.0,
        at_peak_s if unit == "vector" else issue_s,
        None if share is None or share != share else share,  # NaN: grid or waves are not known
        kernel.read_bytes + kernel.written_bytes,
        l2_bytes(kernel, device),
    )


def has_work(kernel: Kernel, origin: str) -> bool:
    """Whether the work of a kernel is known: of a prediction always.

    Args:
        kernel: of the timeline.
        origin: of the timeline, "predicted" or "measured".
    """
    told = kernel.flops > 0 or kernel.compute_s > 0 or kernel.memory_s > 0
    return origin == "predicted" or told or kernel.kind == "memset"


def use_by_group(timeline: Timeline, device: Device | None) -> dict[str, KernelUse]:
    """Return the use of each kernel group whose work is known, by `group_key`."""
    roofs = Roofs(device)
    known = [k for k in timeline.kernels if isinstance(k, Kernel) and has_work(k, timeline.origin)]
    by_group = {group_key(kernel): kernel for kernel in known}
    return {key: kernel_use(kernel, device, roofs) for key, kernel in by_group.items()}
