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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, inf, log2

import numpy as np

from gpuscope.cost.registry import Constants, Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Cluster, Device
from gpuscope.hardware.cluster import build_cluster
from gpuscope.program.types import TensorSpec

_EFFICIENCY = 0.8
"""Share of a link's rate that large messages reach. An all-reduce of 1 GiB takes 5.2 ms on 8 H200
(without NVLS): 361 of 450 GB/s."""

_SPREAD = 0.35
"""Relative 80 % half-width of a collective's time (a judgement)."""


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


def all_reduce_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of an all-reduce of `size_bytes` on every rank: the faster of ring and tree."""
    n, k = group.ranks, group.domains
    share = tuning.share("all_reduce", group.local)
    moved = 2 * (n - 1) / n * size_bytes
    ring_s = _ring_s(group, moved, 2 * (n - 1), 2 * (k - 1), tuning, share)
    if k == 1:
        return ring_s
    moved = 2 * size_bytes
    tree_s = min(
        p.base_s + 2 * ((group.local - 1) * p.link_s + log2(k) * p.tree_fabric_s)
        + _seconds(moved, _ring_rate(group, share) * p.share)
        for p in tuning.protocols
    )  # fmt: skip
    return min(ring_s, tree_s)


def gather_s(
    group: Group, size_bytes: float, tuning: Tuning = NCCL, operation: str = "all_gather"
) -> float:
    """Time of an all-gather that ends, or a reduce-scatter that begins, with `size_bytes`."""
    n = group.ranks
    share = tuning.share(operation, group.local)
    return _ring_s(group, (n - 1) / n * size_bytes, n - 1, group.domains - 1, tuning, share)


def reduce_scatter_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of a reduce-scatter that begins with `size_bytes` on every rank."""
    return gather_s(group, size_bytes, tuning, "reduce_scatter")


def broadcast_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of a broadcast or reduction to one rank: a pipelined ring."""
    share = tuning.share("broadcast", group.local)
    return _ring_s(group, size_bytes, group.ranks - 1, group.domains - 1, tuning, share)


def all_to_all_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of an all-to-all in which every rank holds `size_bytes`: pairs, all at once."""
    n, local = group.ranks, group.local
    inside = size_bytes * (local - 1) / n
    outside = size_bytes * (n - local) / n
    share = tuning.share("all_to_all", local)
    moving_s = max(
        _seconds(inside, group.link_bytes_per_s * share),
        _seconds(outside, group.fabric_bytes_per_s * _EFFICIENCY),
    )
    return min(
        p.base_s + (p.fabric_s if n > local else p.link_s) + moving_s / p.share
        for p in tuning.protocols
    )


def _ring_rate(group: Group, share: float) -> float:
    """What a ring reaches: of the link by measurement, of the fabric by the general share."""
    return min(
        share * group.link_bytes_per_s, _EFFICIENCY * group.local * group.fabric_bytes_per_s
    )


def _ring_s(
    group: Group, moved_bytes: float, steps: int, fabric_steps: int, tuning: Tuning, share: float
) -> float:  # fmt: skip
    """The fastest protocol's time of a ring whose ranks send `moved_bytes` each."""
    return min(
        p.base_s + (steps - fabric_steps) * p.link_s + fabric_steps * p.fabric_s
        + _seconds(moved_bytes, _ring_rate(group, share) * p.share)
        for p in tuning.protocols
    )  # fmt: skip


def _seconds(moved_bytes: float, bytes_per_s: float) -> float:
    if not moved_bytes or bytes_per_s == inf:
        return 0.0
    return moved_bytes / bytes_per_s if bytes_per_s > 0 else inf


@kernel_model(
    "_c10d_functional::all_reduce", "_c10d_functional::all_reduce_",
    "_c10d_functional::all_reduce_coalesced", "_c10d_functional::all_reduce_coalesced_",
    "c10d::allreduce_", "c10d::allreduce_coalesced_",
)  # fmt: skip
def all_reduce(work: Work) -> tuple[Kernel, ...]:
    """Every rank gets the sum of all ranks' tensors."""
    size = _bytes(work.inputs)
    return _collective(work, "all_reduce", all_reduce_s, size, size, _ranks(work))


@kernel_model(
    "_c10d_functional::all_gather_into_tensor", "_c10d_functional::all_gather_into_tensor_out",
    "_c10d_functional::all_gather_into_tensor_coalesced",
    "c10d::_allgather_base_", "c10d::allgather_into_tensor_coalesced_",
)  # fmt: skip
def all_gather(work: Work) -> tuple[Kernel, ...]:
    """Every rank gets all ranks' tensors."""
    whole, part = _whole_and_part(work)
    return _collective(work, "all_gather", gather_s, whole, whole, _ranks(work, whole, part))


@kernel_model(
    "_c10d_functional::reduce_scatter_tensor", "_c10d_functional::reduce_scatter_tensor_out",
    "_c10d_functional::reduce_scatter_tensor_coalesced",
    "c10d::_reduce_scatter_base_", "c10d::reduce_scatter_tensor_coalesced_",
)  # fmt: skip
def reduce_scatter(work: Work) -> tuple[Kernel, ...]:
    """Every rank gets its part of the sum."""
    whole, part = _whole_and_part(work)
    ranks = _ranks(work, whole, part)
    return _collective(work, "reduce_scatter", reduce_scatter_s, whole, part, ranks)


@kernel_model("_c10d_functional::all_to_all_single", "c10d::alltoall_base_")
def all_to_all(work: Work) -> tuple[Kernel, ...]:
    """Every rank sends another part of its tensor to every other."""
    specs = work.inputs[-1:]
    return _collective(
        work, "all_to_all", all_to_all_s, _bytes(specs), _bytes(specs), _ranks(work)
    )


@kernel_model(
    "_c10d_functional::broadcast", "_c10d_functional::broadcast_",
    "c10d::broadcast_", "c10d::reduce_",
)  # fmt: skip
def broadcast(work: Work) -> tuple[Kernel, ...]:
    """One rank's tensor to all, or the sum of all to one."""
    size = _bytes(work.inputs)
    return _collective(work, "broadcast", broadcast_s, size, size, _ranks(work))


@kernel_model("c10d::barrier")
def barrier(work: Work) -> tuple[Kernel, ...]:
    """ProcessGroupNCCL makes it an all-reduce of one number."""
    return _collective(work, "barrier", all_reduce_s, 4.0, 4.0, _ranks(work))


@kernel_model("_c10d_functional::wait_tensor")
def wait_tensor(work: Work) -> tuple[Kernel, ...]:
    """Only an order: what reads the tensor waits for the collective."""
    return ()


def _bytes(specs: Sequence[TensorSpec]) -> float:
    return float(sum(t.nbytes for t in specs))


def _whole_and_part(work: Work) -> tuple[float, float]:
    """Bytes of the whole message and of one rank's part.

    The functional forms have them as input and result; the others take results as arguments, as
    many of one as of the other.
    """
    inputs, outputs = work.inputs, work.outputs
    if work.op.name.startswith("c10d::"):
        half = len(inputs) // 2
        inputs, outputs = inputs[:half], inputs[half:]
    a, b = _bytes(inputs), _bytes(outputs)
    return max(a, b), min(a, b)


def _ranks(work: Work, whole: float = 0.0, part: float = 0.0) -> int:
    """Ranks of the group: as recorded, else from the sizes, else the whole cluster."""
    for name in ("group_size", "world_size"):
        recorded = work.op.args.get(name)
        if isinstance(recorded, int) and recorded > 0:
            return recorded
    if part > 0 and whole > part:
        return round(whole / part)
    return work.cluster.n_devices if work.cluster is not None else 1


_Time = Callable[[Group, float, Tuning], float]


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


@lru_cache(maxsize=64)
def _cluster_for(device: Device, ranks: int) -> Cluster:
    return build_cluster(device, ranks)


def _collective(
    work: Work, name: str, time_s: _Time, size_bytes: float, written_bytes: float, ranks: int
) -> tuple[Kernel, ...]:  # fmt: skip
    """The kernel of a collective; none for a group of one.

    Raises:
        UnsupportedError: no source states the rate of a link that the group needs.
        InvalidValueError: so many of this device cannot be one cluster.
    """
    if ranks <= 1 or not size_bytes:
        return ()
    cluster = work.cluster
    if cluster is None or cluster.n_devices < ranks:
        cluster = _cluster_for(work.device, ranks)
    group = group_of(cluster, ranks)
    seconds = time_s(group, size_bytes, tuning_of(work.constants))
    if seconds == inf:
        raise UnsupportedError(
            f"A collective of {ranks} ranks cannot be timed on {cluster.name}.",
            "The catalogue states no rate for the links between them.",
            "Choose another device, or predict one device without collectives.",
        )
    spread = work.constants.spread("collective.scale", _SPREAD)
    where = "one scale-up domain" if group.domains == 1 else f"{group.domains} domains"
    return (
        Kernel(
            name=f"collective_{name}", kind="collective", op=work.op.index, duration_s=seconds,
            low_s=seconds / (1 + spread), high_s=seconds * (1 + spread),
            read_bytes=size_bytes, written_bytes=written_bytes,
            least_bytes=size_bytes + written_bytes, limiter="link",
            dtype=work.inputs[0].dtype if work.inputs else "", origin="estimated", lane="link",
            note=f"{ranks} ranks in {where}",
        ),
    )  # fmt: skip
