"""What a collective's cost is made of: the group and its links, protocols, and ways to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf, log2
from typing import Literal

import numpy as np

Wiring = Literal["switch", "mesh", "torus", "ring", "host"]

EFFICIENCY = 0.8
"""Share of a link's rate that large messages reach. An all-reduce of 1 GiB takes 5.2 ms on 8 H200
(without NVLS): 361 of 450 GB/s."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way to move data; latencies in seconds.

    Attributes:
        name: NCCL's LL, LL128 or Simple; DMA for engines that a compiler or another library starts.
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
"""NCCL's, with the latencies of its own tuner (src/graph/tuning.cc, `baseLatencies` and
`hwLatencies` of rings over NVLink and the network; 2.18 to 2.28). What each protocol is: Hu et al.,
"Demystifying NCCL", arXiv:2507.04786, section III."""

ENGINES = Protocol("DMA", 1.0, 8.4e-6, 3.4e-6, 14.0e-6, 14.0e-6)
"""Libraries that are neither NCCL nor its port RCCL (HCCL, oneCCL, CNCL) move data by engines or
network ports, without flags among it: all of the bandwidth; latencies of NCCL's Simple stand in
(a judgement)."""

NCCL_VENDORS = frozenset({"NVIDIA", "AMD"})
"""Whose library has NCCL's protocols: NCCL, and RCCL, which is its code for ROCm (RCCL,
src/include/nccl_common.h)."""

PCI_LINK_S: Mapping[str, float] = {"LL": 1.0e-6, "LL128": 2.5e-6, "Simple": 5.7e-6}
"""A ring's step over PCIe (the same table)."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How collectives run on one machine.

    Attributes:
        protocols: what the library can choose from.
        shares: by operation, (ranks, share of the link's rate that large messages reach) where
            measured inside a scale-up domain, by rising ranks.
        extra_s: by operation, what it takes beyond the protocol's base.
        nvls: additions in the switch inside a domain, where the switch has them (NCCL's default).
        nvls_share: of a link's rate, that they reach.
        collnet: additions in the fabric's switches (SHARP); off by default, as in NCCL.
        measured: latencies are of this very machine.
        tuned: protocols were measured one by one, so that NCCL's own choice among them can be
            followed (`tuner`); else the fastest is taken.
        other_sum_s: what a reduction takes beyond a plain sum (average, largest): NCCL has a kernel
            for sums, others go through a table of functions. Seen under LL and LL128 only.
        growth: share of what a link's rate lacks to the best that it makes good with every fourfold
            of a large message (measured; a cause is not known).
        pair_growth: the same of messages between pairs.
    """

    protocols: tuple[Protocol, ...] = PROTOCOLS
    shares: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    extra_s: Mapping[str, float] = field(default_factory=dict)
    nvls: bool = True
    nvls_share: float = 0.65
    collnet: bool = False
    measured: bool = False
    tuned: bool = False
    other_sum_s: float = 0.0
    growth: float = 0.0
    pair_growth: float = 0.0

    def share(self, operation: str, ranks: int, default: float = EFFICIENCY) -> float:
        """Share of a link's rate, interpolated over the logarithm of the ranks."""
        known = self.shares.get(operation)
        if not known:
            return default
        at = [log2(n) for n, _ in known]
        return float(np.interp(log2(ranks), at, [share for _, share in known]))

    def most_ranks(self, operation: str = "") -> int:
        """The largest group that was measured; 0 for none."""
        tables = [self.shares.get(operation, ())] if operation else list(self.shares.values())
        return max((ranks for known in tables for ranks, _ in known), default=0)


@dataclass(frozen=True, slots=True)
class Axis:
    """The ranks of a group along one axis of a torus.

    Attributes:
        length: how many.
        wraps: the last is a neighbour of the first.
        share: of the axis' links that the group has for itself (groups that interleave share them).
    """

    length: int
    wraps: bool
    share: float = 1.0

    @property
    def ways(self) -> float:
        """Links a rank can send on: both of a ring's, one of a line's (its ends have no more)."""
        return (2.0 if self.wraps else 1.0) * self.share

    @property
    def hops(self) -> int:
        """Links to the rank that is farthest away."""
        return self.length // 2 if self.wraps else self.length - 1


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of one collective on a cluster.

    Attributes:
        ranks: how many.
        local: ranks in one scale-up domain (or node); the most, where domains hold unequal parts.
        link_bytes_per_s: what a rank gets inside.
        fabric_bytes_per_s: what a rank gets of the fabric; infinite if it is not used.
        spread: domains that the group spans; 0: as few as hold it.
        wiring: how the devices of a domain are joined.
        axes: of a torus, those along which the group extends.
        axis_bytes_per_s: of a torus, one link, one direction.
        adds: the domain's switch can add (NVLS).
        fabric: "infiniband", "efa", "ethernet" or "".
        extra_fabric_s: latency of a fabric step beyond that of NCCL's tuner.
        nccl: the library is NCCL or its port, with its protocols.
    """

    ranks: int
    local: int
    link_bytes_per_s: float
    fabric_bytes_per_s: float = inf
    spread: int = 0
    wiring: Wiring = "switch"
    axes: tuple[Axis, ...] = ()
    axis_bytes_per_s: float = 0.0
    adds: bool = False
    fabric: str = ""
    extra_fabric_s: float = 0.0
    nccl: bool = True

    @property
    def domains(self) -> int:
        """Domains that the group spans."""
        return self.spread or ceil(self.ranks / self.local)

    @property
    def ring_bytes_per_s(self) -> float:
        """What a ring gets: inside a domain a link, between domains the ports of all its ranks."""
        return min(self.link_bytes_per_s, self.local * self.fabric_bytes_per_s)

    @property
    def fabric_share(self) -> float:
        """Share of the fabric's rate that large messages reach."""
        return FABRIC_SHARES.get(self.fabric, EFFICIENCY)


FABRIC_SHARES: Mapping[str, float] = {"infiniband": 0.9, "ethernet": 0.8, "efa": 0.75}
"""Share of a fabric's rate: what cluster checks ask of NCCL over InfiniBand NDR is 400 GB/s of bus
bandwidth on nodes of 8 x 50 GB/s and more (Crusoe and Saturn Cloud, "Validating Multi-Node GPU
Clusters with NCCL Tests"); Ethernet and EFA, which spread packets over paths, are taken lower (a
judgement). The interval of a group over a fabric holds them all."""


@dataclass(frozen=True, slots=True)
class Way:
    """One algorithm under one protocol, for one collective.

    Attributes:
        algorithm: a key of `gpuscope.cost.collective.ways.ALGORITHMS`.
        protocol: how data is moved.
        latency_s: what it takes however small the message: to begin, and every step's latency.
        moving_s: bytes over rate.
        sent_bytes: what each rank sends.
        steps: one after the other, those between domains included.
        fabric_steps: steps between domains.
        bytes_per_s: what a rank sends at while it sends.
        base_s: part of the latency that is there once.
        link_s, fabric_s: latency of a step inside, and of one between domains.
    """

    algorithm: str
    protocol: Protocol
    latency_s: float
    moving_s: float
    sent_bytes: float
    steps: int
    fabric_steps: int
    bytes_per_s: float
    base_s: float = 0.0
    link_s: float = 0.0
    fabric_s: float = 0.0

    @property
    def time_s(self) -> float:
        """The whole time."""
        return self.latency_s + self.moving_s


def way(
    algorithm: str,
    protocol: Protocol,
    steps: tuple[int, int],
    latencies: tuple[float, float, float],
    sent_bytes: float,
    bytes_per_s: float,
) -> Way:
    """A way from its steps (inside, between domains) and latencies (base, inside, between)."""
    (inside, between), (base_s, link_s, fabric_s) = steps, latencies
    return Way(
        algorithm,
        protocol,
        base_s + inside * link_s + between * fabric_s,
        seconds_of(sent_bytes, bytes_per_s),
        sent_bytes,
        inside + between,
        between,
        bytes_per_s,
        base_s,
        link_s,
        fabric_s,
    )


def seconds_of(moved_bytes: float, bytes_per_s: float) -> float:
    """Bytes over rate; infinite where no source states the rate."""
    if not moved_bytes or bytes_per_s == inf:
        return 0.0
    return moved_bytes / bytes_per_s if bytes_per_s > 0 else inf
