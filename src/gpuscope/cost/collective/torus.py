"""Collectives on tori, and of several tori over a fabric.

On a torus no axis of which closes (a mesh of neighbours) data goes as on a line. Along an axis that
closes, a rank sends on both links at once; several axes work side by side, each
on its part of the data. An all-gather of S bytes over n ranks takes (n - 1) / n S over the rate of
all links that the group uses, and half the axes' lengths in hops; an all-to-all is set by the
middle of the longest axis, S L / (4 k w) with k links of rate w across it. (Austin et al., "How to
Scale Your Model", chapters 2 and 3, 2025: 1 us a hop, an all-to-all a quarter of an all-gather.)
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from gpuscope.cost.collective.types import Group, Protocol, Tuning, Way, seconds_of, way

DMA = Protocol("DMA", 1.0, 2.0e-6, 1.0e-6, 14.0e-6, 14.0e-6)
"""Engines that the compiler's schedule starts: 1 us a hop (the source above), some 2 us to begin (a
judgement)."""

TORUS_SHARE = 0.85
"""Share of a link's rate that large messages reach (the same source takes 90 of 100 GB/s for v5p,
and sees 95 % of that; a judgement)."""


def torus(operation: str, group: Group, size_bytes: float, tuning: Tuning) -> tuple[Way, ...]:
    """A collective inside one torus."""
    n, hops = group.ranks, sum(axis.hops for axis in group.axes)
    share = tuning.share(operation, n, TORUS_SHARE)
    rate = share * group.link_bytes_per_s
    latencies = (DMA.base_s + tuning.extra_s.get(operation, 0.0), DMA.link_s, 0.0)
    sent, steps = (n - 1) / n * size_bytes, hops
    if operation == "all_reduce":
        sent, steps = 2 * sent, 2 * hops
    elif operation == "broadcast":
        sent = size_bytes
    elif operation == "all_to_all":
        narrowest_s = max(
            (
                seconds_of(size_bytes * axis.length / 4, axis.ways * share * group.axis_bytes_per_s)
                for axis in group.axes
            ),
            default=0.0,
        )
        rate = sent / narrowest_s if 0 < narrowest_s < inf else 0.0
    name = "torus" if any(axis.wraps for axis in group.axes) else "mesh"
    return (way(name, DMA, (steps, 0), latencies, sent, rate),)


def hierarchical(
    operation: str, group: Group, size_bytes: float, tuning: Tuning
) -> tuple[Way, ...]:
    """Several tori: inside each, then between equal places over the fabric, then inside again.

    Each place has its own port, so that the fabric carries 1 / local of the data per rank.
    """
    n, local, k = group.ranks, group.local, group.domains
    inner = replace(group, ranks=local, spread=1, fabric_bytes_per_s=inf)
    port = group.fabric_share * group.fabric_bytes_per_s
    fabric_s = DMA.fabric_s + group.extra_fabric_s
    if operation == "all_to_all":
        (inside,) = torus(operation, inner, size_bytes * local / n, tuning)
        sent = size_bytes * (n - local) / n
        between_s, steps = seconds_of(sent, port), 1
    elif operation == "broadcast":
        (inside,) = torus(operation, inner, size_bytes, tuning)
        between_s, steps = seconds_of(size_bytes / local, port), k - 1
        sent = size_bytes
    else:
        twice = 2 if operation == "all_reduce" else 1
        (inside,) = torus(operation, inner, size_bytes, tuning)
        between_s = seconds_of(twice * (k - 1) / k * size_bytes / local, port)
        steps = twice * (k - 1)
        sent = inside.sent_bytes + twice * (k - 1) / k * size_bytes / local
    moving_s = inside.moving_s + between_s
    latency_s = inside.latency_s + steps * fabric_s
    rate = sent / moving_s if 0 < moving_s < inf else 0.0
    return (
        Way(
            "hierarchical",
            DMA,
            latency_s,
            moving_s,
            sent,
            inside.steps + steps,
            steps,
            rate,
            inside.base_s,
            inside.link_s,
            fabric_s,
        ),
    )
