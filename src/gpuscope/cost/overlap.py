"""What a collective and compute that run at the same time take from each other.

A collective's kernel holds multiprocessors (one a channel) and moves its message through device
memory two to three times (read, written by the peer, read again to add). So arithmetic gets fewer
units, and a kernel that memory limits gets less bandwidth; in return, full multiprocessors and a
busy memory hold the collective back. And before all this, a collective that is issued while a
kernel fills the device has to wait for room: the block scheduler places the earlier kernel's blocks
first, so the collective begins in that kernel's last wave (measured: 92 to 93 % into products of
12.6 waves, 99 % into kernels of many small blocks). Measured elsewhere: compute slows by 18.9 % on
average and up to 40 % beside collectives (Lee et al., "Characterizing Compute-Communication Overlap
in GPU-Accelerated Distributed Deep Learning", arXiv:2507.03114: A100, H100, MI210, MI250), products
by up to twice where the missing units cost a whole wave.

Constants (`benchmarks/collective_overlap.py`), `collective.overlap.*`, what a task loses: `.units`,
of products over the share of units that is lost (1.2 to 1.8 times beside collectives that hold 16
to 32 of 132 on two H200s, 1.35 among four; above 1 since a wave that no longer fits costs a whole
one, and power is shared too); `.memory`, of a kernel that memory limits over the bandwidth that the
collective takes (1.12 to 1.19 times); `.by_compute` and `.by_memory`, of a collective beside
products (1.12 to 1.53) and beside a kernel that fills the memory's bandwidth (1.76 to 2.12: every
one of its small transfers waits in the same queues); `.link`, the share of a link's rate that
several collectives reach together. Recordings: validation/recordings/h200/overlap-2.jsonl,
overlap-2-two.jsonl, collectives-4.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel, Kind, Limiter
from gpuscope.hardware import Device

ON_THE_WIRE = {"LL": 2.0, "LL128": 128 / 120}
"""Bytes on the wire for each byte of the message, where a protocol sends flags with the data."""

SPREAD = 0.5
"""Relative 80 % half-width of what a slow-down exceeds 1 by (the range of the source above)."""

TOUCHES = {
    "all_reduce": 3.0,
    "reduce_scatter": 3.0,
    "all_gather": 2.0,
    "broadcast": 2.0,
    "all_to_all": 2.0,
    "send": 1.0,
    "recv": 1.0,
}
"""Bytes that cross device memory for each byte that a rank sends: what is added is read twice and
written once, what is passed on read and written."""

_ARITHMETIC: tuple[Limiter, ...] = ("compute", "tensor_core", "issue", "l2")
_UNTOUCHED: tuple[Limiter, ...] = ("launch", "latency", "host", "link")
_LEAST_LEFT = 0.2


def slowdown_of_compute(
    kind: Kind, limiter: Limiter, collective: Kernel, device: Device, constants: Constants
) -> float:
    """How many times longer a kernel takes while a collective runs all along.

    Args:
        kind: of the kernel.
        limiter: what sets its time when it is alone.
        collective: what runs beside it.
        device: where both run.
        constants: `collective.overlap.*`.

    Returns:
        1 or more.
    """
    if collective.kind != "collective" or kind == "collective" or limiter in _UNTOUCHED:
        return 1.0
    if limiter in _ARITHMETIC:
        taken = min(collective.units / (device.compute_units or 1), 1 - _LEAST_LEFT)
        lost = taken / (1 - taken)
        return 1 + constants.value("collective.overlap.units") * lost
    used = min(memory_share(collective, device), 1 - _LEAST_LEFT)
    return 1 + constants.value("collective.overlap.memory") * used / (1 - used)


def slowdown_of_collective(
    kind: Kind, limiter: Limiter, collective: Kernel, device: Device, constants: Constants
) -> float:
    """How many times longer a collective takes while such kernels run all along.

    Engines that hold no multiprocessors are not held back by arithmetic.

    Args:
        kind: of the kernels that run beside it.
        limiter: what sets their time when they are alone.
        collective: the collective.
        device: where both run.
        constants: `collective.overlap.*`.

    Returns:
        1 or more.
    """
    if collective.kind != "collective" or kind == "collective" or limiter in _UNTOUCHED:
        return 1.0
    if limiter in _ARITHMETIC:
        return 1 + constants.value("collective.overlap.by_compute") if collective.units else 1.0
    return 1 + constants.value("collective.overlap.by_memory")


def room_after_s(kernel: Kernel, collective: Kernel, device: Device) -> float:
    """From a kernel's start until a collective that is issued meanwhile finds room for its blocks.

    Blocks are placed in the order of launches. All of the kernel's own are placed when its last
    wave begins; the collective starts there if that wave leaves enough multiprocessors free, else
    at the end. A collective of engines, and one beside a kernel that leaves room, starts at once;
    so would one on a stream of high priority at the end of any wave, which PyTorch's are not.

    Args:
        kernel: what runs.
        collective: what is issued on another stream.
        device: where both run.
    """
    units = device.compute_units or 1
    if not collective.units or kernel.kind == "collective" or kernel.lane != "compute":
        return 0.0
    if collective.set_aside:
        return 0.0
    whole = int(kernel.waves)
    last = kernel.waves - whole
    if kernel.waves <= 0:
        return 0.0
    fits = (1 - last) * units >= collective.units
    if whole == 0:
        return 0.0 if fits else kernel.duration_s
    if last == 0:
        whole, last, fits = whole - 1, 1.0, False
    return kernel.duration_s * whole / (whole + 1) if fits else kernel.duration_s


@dataclass(frozen=True, slots=True)
class Moving:
    """How a collective uses its link when it is alone.

    Attributes:
        of_time: share of its time in which bytes move, 0..1; the rest are latencies.
        of_link: share of the link's rate that it takes meanwhile, flags included, 0..1.
    """

    of_time: float
    of_link: float


def moving_of(collective: Kernel, link_bytes_per_s: float | None) -> Moving:
    """How a collective uses a link of this rate; None: it is not known, and taken as full."""
    if collective.duration_s <= 0 or collective.moving_s <= 0:
        return Moving(0.0, 0.0)
    of_link = 1.0
    if link_bytes_per_s:
        sent = collective.sent_bytes * ON_THE_WIRE.get(collective.protocol, 1.0)
        of_link = min(1.0, sent / collective.moving_s / link_bytes_per_s)
    return Moving(min(1.0, collective.moving_s / collective.duration_s), of_link)


def slowdown_of_collectives(beside: Sequence[Moving], own: Moving, constants: Constants) -> float:
    """How many times longer a collective takes while others use the same link all along.

    Latencies are not shared, only the time in which bytes move: what all ask of the link together,
    over what several collectives reach of it. Bytes are taken to move at the same time, since
    collectives that are issued together end together.

    Args:
        beside: the others that move bytes over the same link at the time.
        own: this one.
        constants: `collective.overlap.link`.

    Returns:
        1 or more; at most as long as one after the other.
    """
    if own.of_time <= 0 or own.of_link <= 0:
        return 1.0
    asked = own.of_link
    asked += sum(other.of_link * min(1.0, other.of_time / own.of_time) for other in beside)
    alone = max(own.of_link, *(other.of_link for other in beside), 0.0)
    reach = max(constants.value("collective.overlap.link"), alone)
    return 1.0 + own.of_time * max(0.0, asked / reach - 1.0)


def memory_share(collective: Kernel, device: Device) -> float:
    """Share of device memory's rate that a collective uses, 0..1."""
    operation = collective.name.removeprefix("collective_")
    if collective.duration_s <= 0:
        return 0.0
    sent = collective.sent_bytes or collective.read_bytes
    rate = TOUCHES.get(operation, 2.0) * sent / collective.duration_s
    return min(rate / device.memory_bandwidth_bytes_per_s, 1.0)
