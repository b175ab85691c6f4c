"""What a recorded kernel asks of a multiprocessor, and how many of its blocks fit."""

from __future__ import annotations

import numpy as np

from gpuscope.document.blocks import Bar, Bars, Block, Fact, Facts, Part, Role
from gpuscope.document.text import Text, joined
from gpuscope.explanation.occupancy import LIMIT_WORDS
from gpuscope.explanation.residency import Launch, Residency, check_device, check_launch, residency
from gpuscope.hardware import Device
from gpuscope.timeline.types import Timeline

_ROLES: tuple[Role, ...] = ("compute", "tensor", "shared", "launch")


def residency_blocks(timeline: Timeline, event: int, device: Device) -> tuple[Block, ...]:
    """Return registers, shared memory and which of them limits; () where it is not recorded.

    Args:
        timeline: a recording.
        event: row of the kernel's event.
        device: what it ran on.

    Raises:
        UnsupportedError, InvalidValueError: the catalogue does not describe the device's
            multiprocessors, or they cannot run such a block.
    """
    launch = recorded_launch(timeline, event)
    if launch is None:
        return ()
    check_device(device)
    check_launch(device, launch)
    found = residency(device, launch)
    return _facts(found), _bars(found)


def recorded_launch(timeline: Timeline, event: int) -> Launch | None:
    """What a recording says that a kernel was launched with; None where something is missing."""
    recorded = timeline.recorded
    if recorded is None:
        return None
    row = int(np.searchsorted(recorded.event, event))
    if row >= len(recorded) or recorded.event[row] != event:
        return None
    threads = int(recorded.block[row].prod()) if (recorded.block[row] > 0).all() else 0
    registers, shared = int(recorded.registers[row]), int(recorded.shared_bytes[row])
    if threads <= 0 or registers <= 0 or shared < 0:
        return None
    return Launch(threads, registers, shared)


def _facts(found: Residency) -> Facts:
    launch, unit = found.launch, found.device.compute_unit_label
    names = [LIMIT_WORDS[name] for name in found.limiting]
    limit = joined(names)
    return Facts(
        (
            Fact(Text("threads of a block"), launch.threads, "count", "measured"),
            Fact(Text("registers of a thread"), launch.registers, "count", "measured"),
            Fact(Text("shared memory of a block"), launch.shared_bytes, "bytes", "measured"),
            Fact(
                Text("blocks that fit on one {unit}", unit=unit), found.blocks, "count", "computed"
            ),
            Fact(
                Text("occupancy that these allow"),
                found.occupancy,
                "share",
                "computed",
                note=Text(
                    "{blocks} of {most_warps} warps",
                    blocks=found.blocks * found.warps,
                    most_warps=found.most_warps,
                ),
            ),
            Fact(Text("limited by"), limit),
        ),
        Text("What it asks of {value} {unit}", value="an" if unit == "SM" else "a", unit=unit),
    )


def _bars(found: Residency) -> Bars:
    unit = found.device.compute_unit_label
    bars = [
        Bar(label, (Part(label, float(blocks), role),))
        for label, blocks, role in zip(LIMIT_WORDS.values(), found.limits, _ROLES, strict=True)
        if blocks < 1 << 20  # what is not used does not limit
    ]
    return Bars(
        Text("Blocks on one {unit} that each limit would allow", unit=unit),
        "count",
        tuple(bars),
        limit=float(found.blocks),
        limit_label=Text("blocks that fit"),
    )
