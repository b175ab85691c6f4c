"""Collectives by bandwidth and latency: every algorithm that a library has, and its choice.

With n ranks, S the bytes of the whole message (the gathered, scattered or reduced tensor) and B
what the narrowest link gives a rank, the bytes that every rank sends are

    all_reduce      2 (n - 1) / n * S       all_gather, reduce_scatter   (n - 1) / n * S
    broadcast       S                       all_to_all                   (n - 1) / n * S

(Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
2005). A ring takes 2 (n - 1) or n - 1 steps, a double binary tree over nodes twice its depth
(Sanders, Speck and Traeff, 2009; as NCCL has it: Hu et al., arXiv:2507.04786); each step has the
latency of its link. NCCL moves data by one of three protocols, of which the fastest is taken: LL
(8 bytes with a flag: half the bandwidth), LL128 (120 of 128 bytes) and Simple (all of it, but
slow to begin). The time is that of the transfer; waiting for other ranks is not in it.

Here are rings, trees, chains, pairs and NCCL's PAT. Switches that add are in `switched`, tori and
hierarchies in `torus`, messages between two ranks in `messages`; the group's links in `group`;
measured constants in `tuning`.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, log2, sqrt

from gpuscope.cost.collective.group import group_of
from gpuscope.cost.collective.switched import collnet, nvls, nvls_tree
from gpuscope.cost.collective.torus import hierarchical, torus
from gpuscope.cost.collective.tuner import estimate_s
from gpuscope.cost.collective.tuning import NCCL, tuning_of
from gpuscope.cost.collective.types import (
    EFFICIENCY,
    ENGINES,
    PCI_LINK_S,
    PROTOCOLS,
    Group,
    Protocol,
    Tuning,
    Way,
    seconds_of,
    way,
)

__all__ = [
    "ALGORITHMS",
    "NCCL",
    "OPERATIONS",
    "PROTOCOLS",
    "Group",
    "Protocol",
    "Tuning",
    "Way",
    "all_reduce_s",
    "all_to_all_s",
    "broadcast_s",
    "chosen",
    "gather_s",
    "group_of",
    "grown",
    "reduce_scatter_s",
    "tuning_of",
    "ways",
]

OPERATIONS: tuple[str, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
)
"""What `ways` knows."""

ALGORITHMS: tuple[str, ...] = (
    "ring",
    "tree",
    "chain",
    "pairs",
    "pat",
    "nvls",
    "nvls_tree",
    "collnet",
    "torus",
    "mesh",
    "hierarchical",
)
"""Algorithms of `ways`: a chain is a ring that is not closed; PAT gathers over the fabric in a
logarithm of steps; NVLS adds in a domain's switch, CollNet in the fabric's."""

HOST_SHARES: tuple[tuple[int, float], ...] = ((2, 0.6), (4, 0.42), (8, 0.4))
"""Share of a PCIe link's rate where there is no other, by ranks: all share the host's bridges. As
on a server of eight RTX PRO 6000 (see docs/hardware.md, tables of aiconfigurator-core 0.12.0)."""

_HOST_SHARE = {"all_to_all": 0.65}
_GROWS_FROM, _PAIRS_GROW_FROM, _GROWS_UNTIL, _GROWS_TO = 64 << 20, 16 << 20, 1 << 30, 0.82
_NET_POST_S = 1.0e-6
"""Posting a message to the network (NCCL, src/graph/tuning.cc, `getNetOverhead`)."""

_PAT_RANK_S = 2.8e-6
_PAT_BASE_S = 8.0e-6
_PAT_SHARE = 0.75


def ways(operation: str, group: Group, size_bytes: float, tuning: Tuning = NCCL) -> tuple[Way, ...]:
    """All ways to run a collective; `chosen` says which the library takes.

    Args:
        operation: one of `OPERATIONS`; broadcast also stands for a reduction to one rank.
        group: the ranks and their links.
        size_bytes: the whole message (the gathered, scattered or reduced tensor).
        tuning: how collectives run on the machine.
    """
    if group.wiring == "torus" and group.domains == 1:
        return torus(operation, group, size_bytes, tuning)
    if group.wiring == "torus" and group.local > 1:
        return hierarchical(operation, group, size_bytes, tuning)
    pairs = operation == "all_to_all"
    share = grown(_share(operation, group, tuning), size_bytes, tuning, pairs)
    usable = _usable(operation, group, tuning)
    if pairs:
        return _pairs(group, size_bytes, usable, share)
    if operation == "all_reduce":
        return _all_reduce(group, size_bytes, usable, share, tuning)
    n, inside, between = group.ranks, group.ranks - group.domains, group.domains - 1
    if operation == "broadcast":
        return _ring(group, size_bytes, (inside, between), usable, share, "chain")
    ring = _ring(group, (n - 1) / n * size_bytes, (inside, between), usable, share)
    if group.nccl and group.local == 1 and n > 2 and group.wiring != "host":
        return (*ring, _pat(group, (n - 1) / n * size_bytes, usable))
    return ring


def all_reduce_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of an all-reduce of `size_bytes` on every rank."""
    return chosen("all_reduce", group, size_bytes, tuning).time_s


def gather_s(
    group: Group, size_bytes: float, tuning: Tuning = NCCL, operation: str = "all_gather"
) -> float:
    """Time of an all-gather that ends, or a reduce-scatter that begins, with `size_bytes`."""
    return chosen(operation, group, size_bytes, tuning).time_s


def reduce_scatter_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of a reduce-scatter that begins with `size_bytes` on every rank."""
    return chosen("reduce_scatter", group, size_bytes, tuning).time_s


def broadcast_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of a broadcast or reduction to one rank: a pipelined ring."""
    return chosen("broadcast", group, size_bytes, tuning).time_s


def all_to_all_s(group: Group, size_bytes: float, tuning: Tuning = NCCL) -> float:
    """Time of an all-to-all in which every rank holds `size_bytes`: pairs, all at once."""
    return chosen("all_to_all", group, size_bytes, tuning).time_s


def chosen(operation: str, group: Group, size_bytes: float, tuning: Tuning = NCCL) -> Way:
    """The way that the library takes: the fastest, or what NCCL's estimate says where that helps.

    See `tuner`.
    """
    found = ways(operation, group, size_bytes, tuning)
    if tuning.tuned and operation != "all_to_all":
        return min(found, key=lambda way: estimate_s(operation, way, group, size_bytes))
    return min(found, key=lambda way: way.time_s)


def grown(share: float, size_bytes: float, tuning: Tuning, pairs: bool = False) -> float:
    """A share of the link's rate at a size: large messages gain where that was measured.

    Two H200s gather 64 MiB at 245 GB/s and 1 GiB at 283; four, nearer to the link's limit, gain
    less; messages between pairs begin to gain at 16 MiB, and gain more
    (validation/recordings/h200/overlap-2.jsonl, collectives-4.jsonl).
    """
    growth = tuning.pair_growth if pairs else tuning.growth
    least = _PAIRS_GROW_FROM if pairs else _GROWS_FROM
    if not growth or size_bytes <= least or share >= _GROWS_TO:
        return share
    times = log2(min(size_bytes, _GROWS_UNTIL) / least) / 2
    left: float = (1 - growth) ** times
    return _GROWS_TO - (_GROWS_TO - share) * left


def _share(operation: str, group: Group, tuning: Tuning) -> float:
    """Share of the link's rate inside a domain."""
    default = EFFICIENCY
    if group.wiring == "host" and group.local > 1:
        default = Tuning(shares={"": HOST_SHARES}).share("", group.local)
        default *= _HOST_SHARE.get(operation, 1.0)
    return tuning.share(operation, group.local, default)


def protocols_of(group: Group, tuning: Tuning) -> tuple[Protocol, ...]:
    """What the group's library can choose from: LL, LL128 and Simple are NCCL's own."""
    return tuning.protocols if group.nccl else (ENGINES,)


def _usable(operation: str, group: Group, tuning: Tuning) -> tuple[Protocol, ...]:
    """The protocols with what this group and operation add.

    A step's latency that few ranks were measured with is uncertain for many, where steps count:
    half-way (in the logarithm) to that of NCCL's tuner is taken. NCCL keeps LL128 to NVLink. With
    one rank a node every latency is exposed, and a ring's step
    over the fabric takes as long as a tree's (src/graph/tuning.cc).
    """
    beyond = tuning.measured and group.local > tuning.most_ranks() > 0
    known = {p.name: p.link_s for p in PROTOCOLS}
    found = []
    for p in protocols_of(group, tuning):
        link_s = sqrt(p.link_s * max(known.get(p.name, 0.0), p.link_s)) if beyond else p.link_s
        if group.wiring == "host" and not tuning.measured:
            if p.name == "LL128":
                continue
            link_s = PCI_LINK_S.get(p.name, p.link_s)
        if group.domains > 1:  # every step of a ring over nodes posts to the network
            link_s = max(link_s, _NET_POST_S * (3 if p.name == "Simple" else 1))
        fabric_s = p.tree_fabric_s if group.local == 1 else p.fabric_s
        found.append(
            replace(
                p,
                base_s=p.base_s + tuning.extra_s.get(operation, 0.0),
                link_s=link_s,
                fabric_s=fabric_s + group.extra_fabric_s,
                tree_fabric_s=p.tree_fabric_s + group.extra_fabric_s,
            )
        )
    return tuple(found)


def _all_reduce(
    group: Group, size_bytes: float, usable: tuple[Protocol, ...], share: float, tuning: Tuning
) -> tuple[Way, ...]:
    n, k = group.ranks, group.domains
    steps = (2 * (n - k), 2 * (k - 1))
    found = list(_ring(group, 2 * (n - 1) / n * size_bytes, steps, usable, share))
    if k > 1:
        found += _tree(group, size_bytes, usable, share)
    if tuning.nvls and group.adds:
        found.append(
            nvls(group, size_bytes, tuning) if k == 1 else nvls_tree(group, size_bytes, tuning)
        )
    if tuning.collnet and group.fabric == "infiniband" and k > 1:
        found.append(collnet(group, size_bytes, tuning))
    return tuple(found)


def _ring_rate(group: Group, share: float) -> float:
    """What a ring reaches of the links and of the fabric."""
    fabric = group.fabric_share * group.local * group.fabric_bytes_per_s
    return min(share * group.link_bytes_per_s, fabric)


def _ring(
    group: Group,
    moved_bytes: float,
    steps: tuple[int, int],
    usable: tuple[Protocol, ...],
    share: float,
    name: str = "ring",
) -> tuple[Way, ...]:
    """A ring whose ranks send `moved_bytes` each."""
    rate = _ring_rate(group, share)
    return tuple(
        way(name, p, steps, (p.base_s, p.link_s, p.fabric_s), moved_bytes, rate * p.share)
        for p in usable
    )


def _tree(
    group: Group, size_bytes: float, usable: tuple[Protocol, ...], share: float
) -> tuple[Way, ...]:
    """A tree over the domains, a chain inside each: up to the root and down again."""
    rate, levels = _ring_rate(group, share), ceil(log2(group.domains))
    steps = (2 * (group.local - 1), 2 * levels)
    return tuple(
        way("tree", p, steps, (p.base_s, p.link_s, p.tree_fabric_s), 2 * size_bytes, rate * p.share)
        for p in usable
    )


def _pat(group: Group, moved_bytes: float, usable: tuple[Protocol, ...]) -> Way:
    """NCCL's parallel aggregated trees: a logarithm of steps, and a little for every rank.

    For one rank a node, over the network (NCCL 2.23 and later; latencies of src/graph/tuning.cc).
    """
    simple = usable[-1]
    steps = ceil(log2(group.ranks))
    base_s = _PAT_BASE_S + group.ranks * _PAT_RANK_S
    rate = _PAT_SHARE * group.fabric_share * group.fabric_bytes_per_s
    return way(
        "pat", simple, (0, steps), (base_s, 0.0, simple.tree_fabric_s / 3.5), moved_bytes, rate
    )


def _pairs(
    group: Group, size_bytes: float, usable: tuple[Protocol, ...], share: float
) -> tuple[Way, ...]:
    """Every rank to every other at once; the slower of links and fabric sets the time.

    Each message over the fabric is posted on its own, one after the other.
    """
    n, local = group.ranks, group.local
    inside, outside = size_bytes * (local - 1) / n, size_bytes * (n - local) / n
    moving_s = max(
        seconds_of(inside, group.link_bytes_per_s * share),
        seconds_of(outside, group.fabric_bytes_per_s * group.fabric_share),
    )
    leaves = n > local
    sent = inside + outside
    found = []
    for p in usable:
        rate = sent / moving_s * p.share if 0 < moving_s < inf else 0.0
        posting_s = (n - local - 1) * _NET_POST_S if leaves else 0.0
        base_s = p.base_s + posting_s
        step_s = p.fabric_s if leaves else p.link_s
        found.append(
            Way(
                "pairs",
                p,
                base_s + step_s,
                moving_s / p.share,
                sent,
                1,
                int(leaves),
                rate,
                base_s,
                p.link_s,
                p.fabric_s,
            )
        )
    return tuple(found)
