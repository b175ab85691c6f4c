"""Messages between two ranks (send, receive) and between one and all (gather, scatter).

A message gets one pair's links: all of a device's behind a switch, one link of a mesh, the sender's
own port between domains. NCCL moves up to 16 KiB under LL and more under Simple; a receive takes as
long as the send that it meets, and its waiting for that send is the simulation's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpuscope.cost.collective.model import (
    cluster_of,
    link_kernel,
    members_of,
    read_and_written,
    spread_of,
    total_bytes,
    unknown_link,
)
from gpuscope.cost.collective.types import Group, Tuning, Way, way
from gpuscope.cost.collective.ways import group_of, grown, protocols_of, tuning_of
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_LL_LARGEST_BYTES = 16 << 10
"""NCCL_P2P_LL_THRESHOLD."""

_EXCHANGE = 0.6
PAIR_BASE_S = 9.0e-6
"""To begin a message under Simple inside a domain: 10 us up to 256 KiB on an H200
(validation/recordings/h200/collectives-4.jsonl)."""


@kernel_model("c10d::send", "_c10d_functional::isend")
def send(work: Work) -> tuple[Kernel, ...]:
    """A message to another rank."""
    return _message(work, "send", total_bytes(work.inputs))


@kernel_model("c10d::recv_", "c10d::recv_any_source_", "_c10d_functional::irecv")
def recv(work: Work) -> tuple[Kernel, ...]:
    """A message from another rank."""
    return _message(work, "recv", total_bytes(work.outputs) or total_bytes(work.inputs))


@kernel_model("c10d::gather_", "c10d::scatter_")
def gather(work: Work) -> tuple[Kernel, ...]:
    """One rank gets every rank's part, or sends each its own: its links set the time."""
    members = members_of(work)
    if len(members) < 2:
        return ()
    read, written = read_and_written(work)
    part = min(x for x in (read, written, max(read, written)) if x) if read + written else 0.0
    whole = max(max(read, written), part * len(members))
    if not whole:
        return ()
    cluster = cluster_of(work, members)
    group, tuning = group_of(cluster, members), tuning_of(work.constants)
    taken = root_way(group, whole, tuning)
    name = "gather" if "gather" in work.op.name else "scatter"
    return (_kernel(work, name, taken, group, members, (whole, written or whole)),)


def pair_way(group: Group, size_bytes: float, tuning: Tuning, exchange: bool = False) -> Way:
    """One message between the two ranks of a group.

    Args:
        group: the two ranks and their links.
        size_bytes: of the message.
        tuning: how messages run on the machine.
        exchange: each rank sends and receives in the same kernel, which is slower a message.
    """
    protocol = protocols_of(group, tuning)[0 if size_bytes <= _LL_LARGEST_BYTES else -1]
    base_s = tuning.extra_s.get("send_recv", PAIR_BASE_S)
    leaves = group.domains > 1
    if leaves:
        rate = group.fabric_share * group.fabric_bytes_per_s
    else:
        share = tuning.share("exchange", 2, _EXCHANGE) if exchange else tuning.share("send_recv", 2)
        rate = grown(share, size_bytes, tuning, pairs=True) * group.link_bytes_per_s
    fabric_s = protocol.tree_fabric_s + group.extra_fabric_s
    steps = (0, 1) if leaves else (1, 0)
    return way(
        "message", protocol, steps, (base_s, 0.0, fabric_s), size_bytes, rate * protocol.share
    )


def root_way(group: Group, whole_bytes: float, tuning: Tuning) -> Way:
    """One rank's messages with all others; `whole_bytes` of all parts together."""
    n, local = group.ranks, group.local
    inside_s = whole_bytes * (local - 1) / n
    outside_s = whole_bytes * (n - local) / n
    share = tuning.share("send_recv", 2)
    moving_s = inside_s / (share * group.link_bytes_per_s) if inside_s else 0.0
    if outside_s:
        moving_s = max(moving_s, outside_s / (group.fabric_share * group.fabric_bytes_per_s))
    sent = inside_s + outside_s
    simple = tuning.protocols[-1]
    base_s = tuning.extra_s.get("send_recv", PAIR_BASE_S)
    fabric_s = simple.tree_fabric_s + group.extra_fabric_s
    rate = sent / moving_s if 0 < moving_s < inf else 0.0
    return way("root", simple, (0, int(n > local)), (base_s, 0.0, fabric_s), sent, rate)


def ends_of(work: Work) -> tuple[int, int]:
    """The global ranks at both ends of a message.

    The operator knows the other one. Where the work does not say which rank this is, a neighbour of
    the other in the group is taken, as in a pipeline.
    """
    peer = max(work.op.peer, 0)
    if work.rank >= 0 and work.rank != peer:
        return work.rank, peer
    ranks: Sequence[int] = work.group.ranks if work.group is not None else ()
    if peer in ranks and len(ranks) > 1:
        at = ranks.index(peer)
        return ranks[at - 1] if at else ranks[1], peer
    return (peer - 1 if peer else 1), peer


def _message(work: Work, name: str, size_bytes: float) -> tuple[Kernel, ...]:
    if not size_bytes:
        return ()
    ends = ends_of(work)
    group, tuning = group_of(cluster_of(work, ends), ends), tuning_of(work.constants)
    taken = pair_way(group, size_bytes, tuning)
    return (_kernel(work, name, taken, group, ends, (size_bytes, size_bytes)),)


def _kernel(
    work: Work,
    name: str,
    taken: Way,
    group: Group,
    members: Sequence[int],
    moved: tuple[float, float],
) -> Kernel:
    if taken.time_s == inf or (taken.sent_bytes and not taken.bytes_per_s):
        raise unknown_link(cluster_of(work, members), len(members))
    spread = spread_of(work.constants, group)
    interval_s = (taken.time_s / (1 + spread), taken.time_s * (1 + spread))
    return link_kernel(work, name, taken, group, interval_s, moved)
