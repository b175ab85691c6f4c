"""Collectives by bandwidth and latency: rings and trees on a node's links and the fabric.

With n ranks, S the bytes of the whole message (the gathered, scattered or reduced tensor) and B
what the narrowest link gives a rank, the bytes that every rank sends are

    all_reduce      2 (n - 1) / n * S       all_gather, reduce_scatter   (n - 1) / n * S
    broadcast       S                       all_to_all                   (n - 1) / n * S

(Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
2005). A ring takes 2 (n - 1) or n - 1 steps, a tree over nodes twice its depth; each step has the
latency of its link. NCCL moves data by one of three protocols, of which the fastest is taken: LL
(8 bytes with a flag: half the bandwidth), LL128 (120 of 128 bytes) and Simple (all of it, but
slow to begin). Latencies are those of NCCL's own tuner (src/graph/tuning.cc, 2.18 and later).

Ranks of a group are taken to fill one scale-up domain after the other. The time is that of the
transfer; waiting for other ranks is not in it. Where collectives were measured, constants named
`collective.<protocol>.base_s`, `collective.<protocol>.link_s` and
`collective.<operation>.efficiency_<ranks>` replace the latencies and the reached share of a link's
rate inside a scale-up domain; the share of an all-reduce may then exceed 1, since switches that
add (NVLS) halve what it sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, inf, log2

import numpy as np

from gpuscope.cost.registry import Constants
from gpuscope.hardware import Cluster

_EFFICIENCY = 0.8
"""Share of a link's rate that large messages reach. An all-reduce of 1 GiB takes 5.2 ms on 8 H200
(without NVLS): 361 of 450 GB/s."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One of NCCL's ways to move data; latencies in seconds.

    Attributes:
        name: LL, LL128 or Simple.
        share: of the bandwidth that carries data.
        base_s: of every collective.
        link_s: a step over a scale-up link or PCIe.
        fabric_s: a ring's step over the fabric.
        tree_fabric_s: a tree's step over the fabric.
    """

    name: str
    share: float
    base_s: float
    link_s: float
    fabric_s: float
    tree_fabric_s: float


PROTOCOLS = (
    Protocol("LL", 0.5, 6.6e-6, 0.6e-6, 2.7e-6, 5.0e-6),
    Protocol("LL128", 120 / 128, 14.0e-6, 1.9e-6, 4.0e-6, 8.5e-6),
    Protocol("Simple", 1.0, 8.4e-6, 3.4e-6, 14.0e-6, 14.0e-6),
)


@dataclass(frozen=True, slots=True)
class Tuning:
    """How collectives run on one machine.

    Attributes:
        protocols: what the library can choose from.
        shares: by operation, (ranks, share of the link's rate that large messages reach) where
            measured inside a scale-up domain, by rising ranks.
    """

    protocols: tuple[Protocol, ...] = PROTOCOLS
    shares: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def share(self, operation: str, ranks: int) -> float:
        """Share of a link's rate, interpolated over the logarithm of the ranks."""
        known = self.shares.get(operation)
        if not known:
            return _EFFICIENCY
        at = [log2(n) for n, _ in known]
        return float(np.interp(log2(ranks), at, [share for _, share in known]))


NCCL = Tuning()
"""Latencies of NCCL's tuner, and one share for all."""


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of one collective on a cluster.

    Attributes:
        ranks: how many.
        local: ranks in one scale-up domain (or node).
        link_bytes_per_s: what a rank gets inside.
        fabric_bytes_per_s: what a rank gets of the fabric; infinite if it is not used.
    """

    ranks: int
    local: int
    link_bytes_per_s: float
    fabric_bytes_per_s: float = inf

    @property
    def domains(self) -> int:
        """Domains that the group spans."""
        return ceil(self.ranks / self.local)

    @property
    def ring_bytes_per_s(self) -> float:
        """What a ring gets: inside a domain a link, between domains the ports of all its ranks."""
        return min(self.link_bytes_per_s, self.local * self.fabric_bytes_per_s)


def group_of(cluster: Cluster, ranks: int) -> Group:
    """The links that `ranks` neighbouring ranks of a cluster use."""
    inside = max(cluster.scale_up_domain_devices, 1)
    link = cluster.scale_up
    if link is None or inside == 1:
        inside, link = cluster.devices_per_node, cluster.host_link
    local = min(ranks, inside)
    rate = inf if local == 1 else (link.bandwidth_bytes_per_s if link else None) or 0.0
    if link is not None and link.is_point_to_point and 1 < local < inside:
        # Only links between members of the group are used: along one axis of a torus, or those
        # of a mesh.
        axes = len(cluster.torus_shape or ())
        rate *= 1 / axes if axes else (local - 1) / (inside - 1)
    if ranks <= inside:
        return Group(ranks, local, rate)
    fabric = cluster.scale_out_bandwidth_bytes_per_s
    if fabric is None and cluster.host_link is not None:
        fabric = cluster.host_link.bandwidth_bytes_per_s
    return Group(ranks, local, rate, fabric or 0.0)


@dataclass(frozen=True, slots=True)
class Way:
    """One algorithm under one protocol, for one collective.

    Attributes:
        algorithm: "ring", "tree", "chain" (a ring that is not closed) or "pairs".
        protocol: how data is moved.
        latency_s: what it takes however small the message: to begin, and every step's latency.
        moving_s: bytes over rate.
        sent_bytes: what each rank sends.
        steps: one after the other, those between domains included.
        fabric_steps: steps between domains.
        bytes_per_s: what a rank sends at while it sends.
    """

    algorithm: str
    protocol: Protocol
    latency_s: float
    moving_s: float
    sent_bytes: float
    steps: int
    fabric_steps: int
    bytes_per_s: float

    @property
    def time_s(self) -> float:
        """The whole time."""
        return self.latency_s + self.moving_s


OPERATIONS: tuple[str, ...] = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
)  # fmt: skip
"""What `ways` knows."""


def ways(
    operation: str, group: Group, size_bytes: float, tuning: Tuning = NCCL
) -> tuple[Way, ...]:  # fmt: skip
    """All ways to run a collective; the library takes the fastest.

    Args:
        operation: one of `OPERATIONS`; broadcast also stands for a reduction to one rank.
        group: the ranks and their links.
        size_bytes: the whole message (the gathered, scattered or reduced tensor).
        tuning: how collectives run on the machine.
    """
    n, k = group.ranks, group.domains
    share = tuning.share(operation, group.local)
    if operation == "all_to_all":
        return _pairs(group, size_bytes, tuning, share)
    if operation == "all_reduce":
        ring = _ring(group, 2 * (n - 1) / n * size_bytes, 2 * (n - 1), 2 * (k - 1), tuning, share)
        return ring if k == 1 else (*ring, *_tree(group, size_bytes, tuning, share))
    if operation == "broadcast":
        return _ring(group, size_bytes, n - 1, k - 1, tuning, share, "chain")
    return _ring(group, (n - 1) / n * size_bytes, n - 1, k - 1, tuning, share)


def all_reduce_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of an all-reduce of `size_bytes` on every rank: the faster of ring and tree."""
    return _fastest_s("all_reduce", group, size_bytes, tuning)


def gather_s(
    group: Group, size_bytes: float, tuning: Tuning = NCCL, operation: str = "all_gather"
) -> float:
    """Time of an all-gather that ends, or a reduce-scatter that begins, with `size_bytes`."""
    return _fastest_s(operation, group, size_bytes, tuning)


def reduce_scatter_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of a reduce-scatter that begins with `size_bytes` on every rank."""
    return _fastest_s("reduce_scatter", group, size_bytes, tuning)


def broadcast_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of a broadcast or reduction to one rank: a pipelined ring."""
    return _fastest_s("broadcast", group, size_bytes, tuning)


def all_to_all_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of an all-to-all in which every rank holds `size_bytes`: pairs, all at once."""
    return _fastest_s("all_to_all", group, size_bytes, tuning)


def _fastest_s(operation: str, group: Group, size_bytes: float, tuning: Tuning) -> float:
    return min(way.time_s for way in ways(operation, group, size_bytes, tuning))


def _ring_rate(group: Group, share: float) -> float:
    """What a ring reaches: of the link by measurement, of the fabric by the general share."""
    return min(share * group.link_bytes_per_s, _EFFICIENCY * group.local * group.fabric_bytes_per_s)


def _ring(
    group: Group, moved_bytes: float, steps: int, fabric_steps: int, tuning: Tuning, share: float,
    name: str = "ring",
) -> tuple[Way, ...]:  # fmt: skip
    """A ring whose ranks send `moved_bytes` each."""
    rate = _ring_rate(group, share)
    return tuple(
        Way(
            name, p, p.base_s + (steps - fabric_steps) * p.link_s + fabric_steps * p.fabric_s,
            _seconds(moved_bytes, rate * p.share), moved_bytes, steps, fabric_steps, rate * p.share,
        )
        for p in tuning.protocols
    )  # fmt: skip


def _tree(group: Group, size_bytes: float, tuning: Tuning, share: float) -> tuple[Way, ...]:
    """A tree over the domains, a chain inside each: up to the root and down again."""
    rate, depth = _ring_rate(group, share), log2(group.domains)
    levels = ceil(depth)
    return tuple(
        Way(
            "tree", p,
            p.base_s + 2 * ((group.local - 1) * p.link_s + depth * p.tree_fabric_s),
            _seconds(2 * size_bytes, rate * p.share), 2 * size_bytes,
            2 * (group.local - 1 + levels), 2 * levels, rate * p.share,
        )
        for p in tuning.protocols
    )  # fmt: skip


def _pairs(group: Group, size_bytes: float, tuning: Tuning, share: float) -> tuple[Way, ...]:
    """Every rank to every other at once; the slower of links and fabric sets the time."""
    n, local = group.ranks, group.local
    inside = size_bytes * (local - 1) / n
    outside = size_bytes * (n - local) / n
    moving_s = max(
        _seconds(inside, group.link_bytes_per_s * share),
        _seconds(outside, group.fabric_bytes_per_s * _EFFICIENCY),
    )
    leaves = n > local
    sent = inside + outside
    return tuple(
        Way(
            "pairs", p, p.base_s + (p.fabric_s if leaves else p.link_s), moving_s / p.share, sent,
            1, int(leaves), sent / moving_s * p.share if 0 < moving_s < inf else 0.0,
        )
        for p in tuning.protocols
    )  # fmt: skip


def _seconds(moved_bytes: float, bytes_per_s: float) -> float:
    if not moved_bytes or bytes_per_s == inf:
        return 0.0
    return moved_bytes / bytes_per_s if bytes_per_s > 0 else inf


@lru_cache(maxsize=64)
def tuning_of(constants: Constants) -> Tuning:
    """How collectives run, as far as it was measured on the machine.

    Constants that were carried from another device are left out, since links differ: of
    collectives only a device's own say anything.
    """
    calibration = constants.calibration
    own = {
        name: calibration.value(name)
        for name in calibration.names("collective")
        if calibration.origin(name) in ("calibrated", "measured")
    }
    protocols = tuple(
        replace(
            p, base_s=own.get(f"collective.{p.name}.base_s", p.base_s),
            link_s=own.get(f"collective.{p.name}.link_s", p.link_s),
        )
        for p in PROTOCOLS
    )  # fmt: skip
    shares: dict[str, list[tuple[int, float]]] = {}
    for name, value in own.items():
        operation, _, what = name.removeprefix("collective.").rpartition(".")
        if what.startswith("efficiency_"):
            shares.setdefault(operation, []).append((int(what.rpartition("_")[2]), value))
    return Tuning(protocols, {operation: tuple(sorted(s)) for operation, s in shares.items()})
