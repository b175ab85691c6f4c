"""Multiprocessors that a collective's kernel holds while it runs: NCCL's channels, a block each.

NCCL takes fewer channels for small messages: as many as leave each thread a least number of bytes
(64 under Simple, 8 under LL and LL128, times the ranks for a ring under LL; src/enqueue.cc,
`NCCL_*_THREAD_THRESHOLD`). How many there are at most depends on the links: 24 on NVLink 4 of eight
devices, 16 for NVLS, 32 for an all-to-all, 16 for one message, 2 to 16 over a fabric with a port a
device. Engines that a compiler programs (TPU, Trainium, Gaudi) hold none.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.cost.collective.types import Group, Way
from gpuscope.hardware import Device

MOST_CHANNELS: Mapping[str, int] = {
    "nvls": 16,
    "nvls_tree": 16,
    "collnet": 16,
    "pairs": 32,
    "message": 16,
    "root": 32,
    "one_shot": 24,
    "two_shot": 24,
    "multimem": 24,
    "one_way": 24,
}
_LINK_CHANNELS, _HOST_CHANNELS, _FABRIC_CHANNELS = 24, 4, 16
_LEAST_BYTES: Mapping[str, int] = {"LL": 8, "LL128": 8, "Simple": 64}
_THREADS = 512
_PAIR_BYTES = 8 << 10
"""Of a message between a pair, a channel's: 8 carry 64 KiB, 18 carry 128 KiB (overlap-2.jsonl)."""


def units_taken(taken: Way, group: Group, device: Device) -> int:
    """How many multiprocessors the collective holds; 0 where engines beside them move the data."""
    least = _LEAST_BYTES.get(taken.protocol.name, 64 if taken.protocol.name == "direct" else 0)
    if not least or device.vendor not in ("NVIDIA", "AMD"):
        return 0
    each = least * _THREADS
    if taken.algorithm == "ring" and taken.protocol.name == "LL":
        each *= group.ranks
    elif taken.algorithm in ("pairs", "message", "root"):
        each = _PAIR_BYTES
    most = MOST_CHANNELS.get(taken.algorithm, _LINK_CHANNELS)
    if group.wiring == "host":
        most = min(most, _HOST_CHANNELS)
    elif group.local == 1:
        most = min(most, _FABRIC_CHANNELS)
    wanted = int(taken.sent_bytes // each)
    return max(1, min(most, wanted, device.compute_units or most))
