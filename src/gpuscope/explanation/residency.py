"""How many blocks of a launch fit on one multiprocessor, and what would let more fit.

The limits are those of `gpuscope.analysis.launch_shape` (NVIDIA: CUDA C++ Programming Guide,
"Compute Capabilities", and `cuda_occupancy.h`; AMD: LLVM's AMDGPU back end).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.launch_shape import LIMITS, block_limits, register_parts
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.explanation.limits import an
from gpuscope.explanation.operators import whole
from gpuscope.hardware import Device

_NEEDED = (
    "compute_units",
    "warp_size",
    "max_threads_per_unit",
    "max_threads_per_block",
    "max_blocks_per_unit",
    "registers_per_unit",
    "registers_per_thread",
    "register_granularity",
    "shared_memory_per_unit_bytes",
    "shared_memory_per_block_bytes",
    "shared_memory_granularity_bytes",
)

_SHARED = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(b|k|kb|kib)?\s*$", re.IGNORECASE)


def shared_size(text: str | int) -> int:
    """Bytes of shared memory as CUDA counts them: "48KB" is 48 x 1024 bytes.

    Raises:
        InvalidValueError: not a size.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return whole("shared", text, 0)
    found = _SHARED.match(str(text))
    if found is None:
        raise InvalidValueError(
            Text("'{text}' is no amount of shared memory.", text=text),
            "",
            Text("Write for example: 48KB, or 49152."),
        )
    value = float(found[1]) * (1024 if (found[2] or "b").lower().startswith("k") else 1)
    if value != int(value):
        raise InvalidValueError(Text("'{text}' is no whole number of bytes.", text=text))
    return int(value)


@dataclass(frozen=True, slots=True)
class Launch:
    """What a kernel asks of a multiprocessor.

    Attributes:
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block, static and dynamic.
    """

    threads: int
    registers: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Residency:
    """How a launch fills a multiprocessor.

    Attributes:
        device: whose multiprocessor.
        launch: what is asked.
        limits: blocks that each limit by itself allows: threads, registers, shared memory, slots.
        blocks: that fit at once.
        limiting: names of the limits that allow no more.
        warps: of a block.
        most_warps: that one multiprocessor holds.
    """

    device: Device
    launch: Launch
    limits: tuple[int, int, int, int]
    blocks: int
    limiting: tuple[str, ...]
    warps: int
    most_warps: int

    @property
    def occupancy(self) -> float:
        """Resident warps over the most that there can be."""
        return self.blocks * self.warps / self.most_warps

    @property
    def threads(self) -> int:
        """Resident threads of one multiprocessor."""
        return self.blocks * self.launch.threads


def check_device(device: Device) -> None:
    """Refuse devices whose multiprocessors the catalogue does not describe.

    Raises:
        UnsupportedError: names the first missing figure.
    """
    missing = [name for name in _NEEDED if getattr(device, name) is None]
    if missing:
        raise UnsupportedError(
            Text("Occupancy cannot be explained on {device}.", device=device.name),
            Text(
                "The catalogue has no {missing} for it: it is no SIMT device, or its vendor does "
                "not publish the figure.",
                missing=missing[0],
            ),
            Text("Choose an NVIDIA or AMD GPU: gpuscope devices"),
        )


def check_launch(device: Device, launch: Launch) -> None:
    """Refuse what the device refuses to launch.

    Raises:
        InvalidValueError: says which limit is broken.
    """
    most_threads = device.max_threads_per_block or 0
    most_registers = device.registers_per_thread or 0
    most_shared = device.shared_memory_per_block_bytes or 0
    if launch.threads > most_threads:
        raise InvalidValueError(
            Text("A block of {threads} threads cannot be.", threads=launch.threads),
            Text(
                "On {device} a block holds at most {most_threads} threads.",
                device=device.name,
                most_threads=most_threads,
            ),
            Text(
                "Type: --threads {most_threads}, and launch more blocks.", most_threads=most_threads
            ),
        )
    if launch.registers > most_registers:
        raise InvalidValueError(
            Text("{registers} registers a thread cannot be.", registers=launch.registers),
            Text(
                "On {device} a thread has at most {most_registers}; compilers spill the rest to "
                "memory.",
                device=device.name,
                most_registers=most_registers,
            ),
            Text("Type: --registers {most_registers}", most_registers=most_registers),
        )
    if launch.shared_bytes > most_shared:
        raise InvalidValueError(
            Text(
                "{shared} KB of shared memory a block cannot be.",
                shared=Number(launch.shared_bytes / 1024, "g"),
            ),
            Text(
                "On {device} a block has at most {most_shared} KB.",
                device=device.name,
                most_shared=Number(most_shared / 1024, "g"),
            ),
            Text("Type: --shared {most_shared}KB", most_shared=most_shared // 1024),
        )
    if limits_of(device, launch)[1] == 0:
        top = most_registers_for(device, launch.threads, 1)
        raise InvalidValueError(
            Text(
                "{threads} threads of {registers} registers do not fit on {unit}.",
                threads=launch.threads,
                registers=launch.registers,
                unit=an(device.compute_unit_label),
            ),
            Text(
                "It has {registers_per_unit} registers: such a launch fails.",
                registers_per_unit=Number(device.registers_per_unit, ","),
            ),
            Text(
                "Type: --registers {top} (or __launch_bounds__({threads})), or fewer threads.",
                top=top,
                threads=launch.threads,
            ),
        )


def limits_of(device: Device, launch: Launch) -> tuple[int, int, int, int]:
    """Blocks that each limit by itself allows: threads, registers, shared memory, slots."""
    found = block_limits(
        device,
        np.array([launch.threads]),
        np.array([launch.registers]),
        np.array([launch.shared_bytes]),
    )[:, 0]
    return int(found[0]), int(found[1]), int(found[2]), int(found[3])


def residency(device: Device, launch: Launch) -> Residency:
    """How a launch fills a multiprocessor.

    Raises:
        UnsupportedError: the catalogue does not describe the multiprocessor.
        InvalidValueError: such a launch fails.
    """
    check_device(device)
    check_launch(device, launch)
    warp = device.warp_size or 32
    limits = limits_of(device, launch)
    blocks = min(limits)
    limiting = tuple(name for name, most in zip(LIMITS[1:5], limits, strict=True) if most == blocks)
    return Residency(
        device,
        launch,
        limits,
        blocks,
        limiting,
        -(-launch.threads // warp),
        (device.max_threads_per_unit or warp) // warp,
    )


def occupancies(
    device: Device, threads: Sequence[int], registers: Sequence[int], shared: Sequence[int]
) -> list[float]:
    """Occupancy of many launches at once; 0 where one cannot be launched."""
    warp = device.warp_size or 32
    each = np.array(threads)
    blocks = block_limits(device, each, np.array(registers), np.array(shared)).min(axis=0)
    most = (device.max_threads_per_unit or warp) // warp
    return [float(value) for value in blocks * -(-each // warp) / most]


def most_registers_for(device: Device, threads: int, blocks: int) -> int:
    """Most registers a thread may use for so many resident blocks; 0 if none are enough."""
    warp, piece = device.warp_size or 32, device.register_granularity or 1
    parts = register_parts(device)
    warps = blocks * -(-threads // warp)
    a_part = -(-warps // parts)
    of_warp = (device.registers_per_unit or 0) // parts // a_part // piece * piece
    return min(of_warp // warp, device.registers_per_thread or 0)


def most_shared_for(device: Device, blocks: int) -> int:
    """Most shared memory a block may use for so many resident ones, bytes."""
    piece = device.shared_memory_granularity_bytes or 1
    kept = device.shared_memory_reserved_per_block_bytes or 0
    share = (device.shared_memory_per_unit_bytes or 0) // blocks // piece * piece - kept
    return max(min(share, device.shared_memory_per_block_bytes or 0), 0)
