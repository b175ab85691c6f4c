"""Which links the ranks of a group use: domains, rails, meshes, tori.

A rank's global number says where it sits: ranks fill node after node (as torchrun numbers them),
and domain after domain. So neighbours share a domain, while a group with one rank a node (data
parallelism beside tensor parallelism) has none inside and a port of its own for each rank: the
equal groups beside it, which run at the same time, have the other ports. What a rank gets of the
fabric is therefore its share of the node's ports, whichever the group.

A mesh without a switch (xGMI) gives a group only the links between its members, a torus only the
axes along which it extends. On a torus, an axis is a ring where the slice closes it: Google's
three-dimensional slices from 4 x 4 x 4 on, two-dimensional ones along a full axis of 16 (Austin et
al., "How to Scale Your Model", chapter 2, 2025); Trainium's 4 x 4 always; a mesh of neighbours
(Dojo) never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import inf, prod

from gpuscope.cost.collective.types import NCCL_VENDORS, Axis, Group, Wiring
from gpuscope.hardware import Cluster, Interconnect

_EFA_EXTRA_S = 8e-6
"""EFA's messages take some 10 microseconds more than InfiniBand's 2 to 3 (AWS, "Now Available:
Elastic Fabric Adapter", 2019: 15.5 us end to end; later generations halve it). Estimated."""

_ADDING_LINKS = ("nvlink-4", "nvlink-5", "nvlink-6")
_LEAST_ADDING = 3


def group_of(cluster: Cluster, ranks: int | Sequence[int]) -> Group:
    """The links that a group uses.

    Args:
        cluster: what it runs on.
        ranks: global ranks of the group; or how many, for as many neighbours from rank 0 on.
    """
    members = range(ranks) if isinstance(ranks, int) else ranks
    return _group(cluster, members if isinstance(members, range) else tuple(members))


@lru_cache(maxsize=1024)
def _group(cluster: Cluster, ranks: range | tuple[int, ...]) -> Group:
    inside = max(cluster.scale_up_domain_devices, 1)
    link = cluster.scale_up
    if link is None or inside == 1:
        inside, link = cluster.devices_per_node, cluster.host_link
    wiring: Wiring = (
        "host"
        if cluster.scale_up is None or link is not cluster.scale_up
        else (_wiring(link, cluster))
    )
    places = Counter(rank // inside for rank in ranks)
    domain, local = places.most_common(1)[0]
    first = [rank % inside for rank in ranks if rank // inside == domain]
    axes = _axes(cluster, first) if wiring == "torus" else ()
    rate, one = _rates(link, wiring, cluster, local, inside, axes)
    fabric, kind, extra_s = inf, "", 0.0
    if len(places) > 1:
        fabric, kind, extra_s = _fabric(cluster)
    adds = (
        wiring == "switch"
        and link is not None
        and link.id in _ADDING_LINKS
        and local >= _LEAST_ADDING
    )
    return Group(
        len(ranks),
        local,
        rate,
        fabric,
        len(places),
        wiring,
        axes,
        one,
        adds,
        kind,
        extra_s,
        cluster.device.vendor in NCCL_VENDORS,
    )


def _wiring(link: Interconnect, cluster: Cluster) -> Wiring:
    if link.wiring == "torus":
        return "torus" if cluster.torus_shape else "mesh"
    return link.wiring


def _rates(
    link: Interconnect | None,
    wiring: Wiring,
    cluster: Cluster,
    local: int,
    inside: int,
    axes: tuple[Axis, ...],
) -> tuple[float, float]:
    """What a rank gets inside, and one link of a torus; infinite for a rank that is alone."""
    if local == 1:
        return inf, 0.0
    rate = (link.bandwidth_bytes_per_s if link else None) or 0.0
    if wiring == "torus":
        one = rate / (2 * len(cluster.torus_shape or (1,)))
        return sum(axis.ways for axis in axes) * one, one
    if wiring == "mesh":
        rate *= (local - 1) / (inside - 1)
    return rate, 0.0


def _fabric(cluster: Cluster) -> tuple[float, str, float]:
    """What a rank gets of the fabric, its kind, and what its steps take beyond NCCL's table."""
    rate = cluster.scale_out_bandwidth_bytes_per_s
    if rate is None and cluster.host_link is not None:
        return cluster.host_link.bandwidth_bytes_per_s or 0.0, "", 0.0
    name = cluster.scale_out.id if cluster.scale_out is not None else ""
    kind = next((k for k in ("infiniband", "efa", "ethernet") if name.startswith(k)), "")
    return rate or 0.0, kind, _EFA_EXTRA_S if kind == "efa" else 0.0


def _axes(cluster: Cluster, places: Sequence[int]) -> tuple[Axis, ...]:
    """Axes of the torus along which the places of a domain extend."""
    shape = cluster.torus_shape or ()
    found = []
    step = prod(shape)
    for length in shape:
        step //= length
        at = sorted({place // step % length for place in places})
        if len(at) < 2:
            continue
        apart = (at[-1] - at[0]) // (len(at) - 1)
        full = len(at) * apart == length
        found.append(Axis(len(at), full and _closes(cluster, shape, length), 1 / max(apart, 1)))
    return tuple(found)


def _closes(cluster: Cluster, shape: tuple[int, ...], length: int) -> bool:
    """Whether an axis of a slice is a ring."""
    if cluster.scale_up is not None and not cluster.scale_up.torus_closed:
        return False
    if cluster.device.vendor.lower().startswith("google"):
        return min(shape) >= 4 if len(shape) > 2 else length == 16
    return length > 2


def pair_bytes_per_s(cluster: Cluster, rank: int, other: int) -> float:
    """What a message between two ranks gets: a link inside a domain, else the sender's port.

    Zero where no source states the rate.
    """
    group = group_of(cluster, (rank, other))
    return group.fabric_bytes_per_s if group.domains > 1 else group.link_bytes_per_s
