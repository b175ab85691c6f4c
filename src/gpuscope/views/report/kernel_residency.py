"""What a recorded kernel asks of a multiprocessor, and how many of its blocks fit."""

from __future__ import annotations

import numpy as np

from gpuscope.explain.occupancy import LIMIT_WORDS
from gpuscope.explain.residency import Launch, Residency, check_device, check_launch, residency
from gpuscope.explain.types import Bar, Bars, Block, Fact, Facts, Part, Role, Words
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
    limit = Words(", ".join(n.en for n in names), "、".join(n.zh for n in names))
    return Facts(
        (
            Fact(Words("threads of a block", "每线程块线程数"), launch.threads, "count",
                 "measured"),
            Fact(Words("registers of a thread", "每线程寄存器"), launch.registers, "count",
                 "measured"),
            Fact(Words("shared memory of a block", "每线程块共享内存"), launch.shared_bytes,
                 "bytes", "measured"),
            Fact(Words(f"blocks that fit on one {unit}", f"一个 {unit} 可容纳的线程块"),
                 found.blocks, "count", "computed"),
            Fact(Words("occupancy that these allow", "由此允许的占用率"), found.occupancy,
                 "share", "computed", note=Words(
                     f"{found.blocks * found.warps} of {found.most_warps} warps",
                     f"{found.most_warps} 个 warp 中的 {found.blocks * found.warps} 个")),
            Fact(Words("limited by", "受限于"), limit),
        ),
        Words(f"What it asks of {'an' if unit == 'SM' else 'a'} {unit}", f"它对 {unit} 的需求"),
    )  # fmt: skip


def _bars(found: Residency) -> Bars:
    unit = found.device.compute_unit_label
    bars = [
        Bar(label, (Part(label, float(blocks), role),))
        for label, blocks, role in zip(LIMIT_WORDS.values(), found.limits, _ROLES, strict=True)
        if blocks < 1 << 20  # what is not used does not limit
    ]
    return Bars(
        Words(f"Blocks on one {unit} that each limit would allow",
              f"各项限制单独允许的每 {unit} 线程块数"),
        "count", tuple(bars), limit=float(found.blocks),
        limit_label=Words("blocks that fit", "可容纳的线程块"),
    )  # fmt: skip
