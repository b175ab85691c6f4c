"""All-reduces in which switches add: NVLS inside a domain, NVLS trees, SHARP in the fabric.

An NVSwitch of the third generation on reads one address from all devices at once and returns the
sum, and writes one value to all. Each rank reduces its part and writes it back, so that S (1 + 1/n)
bytes cross each rank's link in either direction, where a ring sends 2 (n - 1) / n S: twice as fast
at best for many ranks, no gain for two. Latencies are those of NCCL's tuner (src/graph/tuning.cc,
rows NVLS, NVLSTree and CollNetChain). Gathers and scatters by NVLS need buffers registered with
NCCL, which PyTorch does only when asked; they are left out.
"""

from __future__ import annotations

from math import ceil, log2

from gpuscope.cost.collective.types import Group, Tuning, Way, way

NVLS_S = 25e-6
NVLS_TREE_FABRIC_S = 20.9e-6
COLLNET_BASE_S, COLLNET_LINK_S, COLLNET_FABRIC_S = 0.0, 2.8e-6, 30e-6


def nvls(group: Group, size_bytes: float, tuning: Tuning) -> Way:
    """All ranks of one domain add in its switch."""
    simple = tuning.protocols[-1]
    sent = (1 + 1 / group.ranks) * size_bytes
    rate = tuning.share("nvls", group.ranks, tuning.nvls_share) * group.link_bytes_per_s
    return way("nvls", simple, (1, 0), (0.0, NVLS_S, 0.0), sent, rate)


def nvls_tree(group: Group, size_bytes: float, tuning: Tuning) -> Way:
    """Switches add inside each domain, double binary trees between them.

    Every port carries its part of the message up and down once.
    """
    simple = tuning.protocols[-1]
    levels = ceil(log2(group.domains))
    sent = (1 + 1 / group.local) * size_bytes
    inside = tuning.share("nvls", group.local, tuning.nvls_share) * group.link_bytes_per_s
    fabric = group.fabric_share * group.local * group.fabric_bytes_per_s
    rate = min(inside, fabric * sent / (2 * size_bytes)) if size_bytes else inside
    fabric_s = NVLS_TREE_FABRIC_S + group.extra_fabric_s
    return way("nvls_tree", simple, (1, 2 * levels), (0.0, NVLS_S, fabric_s), sent, rate)


def collnet(group: Group, size_bytes: float, tuning: Tuning) -> Way:
    """The fabric's switches add (SHARP): each domain sends its sum once, whatever their number."""
    simple = tuning.protocols[-1]
    fabric = group.fabric_share * group.local * group.fabric_bytes_per_s
    rate = min(tuning.nvls_share * group.link_bytes_per_s, fabric)
    steps = (2 * (group.local - 1), 1)
    latencies = (COLLNET_BASE_S, COLLNET_LINK_S, COLLNET_FABRIC_S)
    return way("collnet", simple, steps, latencies, size_bytes, rate)
