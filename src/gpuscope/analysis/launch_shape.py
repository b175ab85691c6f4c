"""Occupancy, waves and tail of recorded kernels, from what they were launched with.

A multiprocessor takes as many blocks as its threads, registers, shared memory and block slots
allow (CUDA C++ Programming Guide, "Compute Capabilities"; allocation granularities: NVIDIA's
occupancy calculator, `cuda_occupancy.h`). Registers are handed out to a warp in whole pieces, and
each quarter of a multiprocessor has its own; shared memory is rounded up, with 1 KiB a block kept
by the system from compute capability 8 on. On AMD the same limits hold for compute units and
wavefronts, whose vector registers lie in four (wavefronts of 64) or two SIMDs (of 32); its traces
record no registers, so that the result is an upper bound for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.columns import Floats
from gpuscope.hardware.device import Device
from gpuscope.timeline.types import EVENT_KINDS, Ints, Timeline

LIMITS: tuple[str, ...] = ("", "threads", "registers", "shared memory", "blocks", "grid")
"""What keeps more warps from being resident; "grid" where the grid has no more blocks."""

_NONE, _THREADS, _REGISTERS, _SHARED, _BLOCKS, _GRID = range(len(LIMITS))

_QUARTERS = 4
"""Parts of a multiprocessor with registers of their own (NVIDIA from compute capability 5 on; the
SIMDs of an AMD compute unit with wavefronts of 64)."""

_RDNA_SIMDS = 2
"""SIMDs of an AMD compute unit with wavefronts of 32."""

_BARRIERS = 16
"""Most blocks of more than one wavefront on an AMD compute unit (barrier slots)."""

_KERNEL = EVENT_KINDS.index("kernel")


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """How each recorded device event fills the device; columns in the order of `Recorded`.

    Attributes:
        blocks: of the grid; -1 where no grid was recorded (copies, graphs on some drivers).
        threads: of a block; -1 if unknown.
        resident: blocks that fit on one unit at once; 0 if unknown.
        occupancy: warps resident on a unit over its maximum, the grid spread evenly; NaN if
            unknown.
        waves: blocks / (units x resident); NaN if unknown.
        tail_loss: share of block slots that stay empty in the last wave, 1 - waves / ceil(waves);
            NaN if unknown.
        limit: index into `LIMITS`.
        units: multiprocessors of the device.
    """

    blocks: Ints
    threads: Ints
    resident: Ints
    occupancy: Floats
    waves: Floats
    tail_loss: Floats
    limit: Ints
    units: int


def launch_shape(timeline: Timeline, device: Device | None) -> LaunchShape | None:
    """Return how each recorded kernel fills the device.

    Args:
        timeline: a recording.
        device: what it was recorded on.

    Returns:
        None for predictions, and where the device or its execution model is not known.
    """
    recorded = timeline.recorded
    if recorded is None or device is None or not device.compute_units:
        return None
    if not device.warp_size or not device.max_threads_per_unit:
        return None
    known = (recorded.grid > 0).all(axis=1) & (recorded.block > 0).all(axis=1)
    known &= timeline.events.kind[recorded.event] <= _KERNEL + 1
    blocks = np.where(known, recorded.grid.prod(axis=1), -1)
    threads = np.where(known, recorded.block.prod(axis=1), -1)
    units = _units(timeline, device)
    resident, limit = resident_blocks(device, threads, recorded.registers, recorded.shared_bytes)
    resident = np.where(known, resident, 0)
    known &= resident > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        waves = np.where(known, blocks / (units * resident), np.nan)
        at_once = np.minimum(resident, blocks / units)
        warps = -(-threads // device.warp_size)
        most = device.max_threads_per_unit // device.warp_size
        occupancy = np.where(known, at_once * warps / most, np.nan)
        tail = np.where(known, 1.0 - waves / np.ceil(waves), np.nan)
    few = known & (blocks < units * resident)
    return LaunchShape(
        blocks=blocks,
        threads=threads,
        resident=resident,
        occupancy=np.minimum(occupancy, 1.0),
        waves=waves,
        tail_loss=tail,
        limit=np.where(few, _GRID, np.where(known, limit, _NONE)),
        units=units,
    )


def _units(timeline: Timeline, device: Device) -> int:
    """Multiprocessors: as recorded (a slice or a cut-down board has fewer), else by catalogue."""
    counts = {d.sm_count for source in timeline.sources for d in source.devices if d.sm_count}
    return counts.pop() if len(counts) == 1 else device.compute_units or 1


def resident_blocks(
    device: Device, threads: Ints, registers: Ints, shared_bytes: Ints
) -> tuple[Ints, Ints]:
    """Return how many blocks fit on one unit, and what limits them (index into `LIMITS`).

    Args:
        device: with its limits.
        threads: of a block.
        registers: of a thread; 0 or less where unknown: then they do not limit.
        shared_bytes: of a block; less than 0 where unknown: then it does not limit.
    """
    by = block_limits(device, threads, registers, shared_bytes)
    # Of equal limits the one named first counts: threads before registers and so on.
    return np.asarray(by.min(axis=0), np.int64), np.asarray(by.argmin(axis=0) + 1, np.int64)


def block_limits(device: Device, threads: Ints, registers: Ints, shared_bytes: Ints) -> Ints:
    """Return how many blocks each limit by itself allows on one unit.

    Args:
        device, threads, registers, shared_bytes: as `resident_blocks` takes them.

    Returns:
        Shape [4, launches]: by threads, registers, shared memory, block slots, as `LIMITS` names
        them from 1 on; the largest integer where a limit is not known.
    """
    warp = device.warp_size or 32
    warps = np.maximum(-(-threads // warp), 1)
    most_warps = (device.max_threads_per_unit or 0) // warp
    by = np.full((4, len(threads)), np.iinfo(np.int64).max)
    by[0] = most_warps // warps
    by[1] = _by_registers(device, warps, registers)
    by[2] = _by_shared(device, shared_bytes)
    slots = np.full(len(threads), device.max_blocks_per_unit or 32)
    if device.vendor == "AMD":
        slots = np.where(warps > 1, np.minimum(slots, _BARRIERS), slots)
    by[3] = slots
    return by


def register_parts(device: Device) -> int:
    """Return how many parts of a unit have registers of their own."""
    return _RDNA_SIMDS if device.vendor == "AMD" and device.warp_size == 32 else _QUARTERS


def _by_registers(device: Device, warps: Ints, registers: Ints) -> Ints:
    none = np.full(len(warps), np.iinfo(np.int64).max)
    piece, total = device.register_granularity, device.registers_per_unit
    if not piece or not total:
        return none
    parts = register_parts(device)
    of_warp = -(-np.maximum(registers, 1) * (device.warp_size or 32) // piece) * piece
    fitting = total // parts // of_warp * parts
    return np.where(registers > 0, fitting // warps, none)


def _by_shared(device: Device, shared_bytes: Ints) -> Ints:
    none = np.full(len(shared_bytes), np.iinfo(np.int64).max)
    total, piece = device.shared_memory_per_unit_bytes, device.shared_memory_granularity_bytes
    if not total or not piece:
        return none
    kept = device.shared_memory_reserved_per_block_bytes or 0
    taken = -(-(np.maximum(shared_bytes, 0) + kept) // piece) * piece
    return np.where((shared_bytes >= 0) & (taken > 0), total // np.maximum(taken, 1), none)
