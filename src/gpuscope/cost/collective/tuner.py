"""NCCL's own estimate of each algorithm and protocol, by which it chooses one.

NCCL does not try: for every call it adds a latency from a table to bytes over a modelled bandwidth,
and takes the least (src/graph/tuning.cc, `ncclTopoTuneModel`; 2.28). The table fits no machine
exactly, so the choice is not always the fastest: on two H200s an all-gather of 4 MiB runs under
Simple in 26 us, where LL128 would take 21 (validation/recordings/h200/overlap-2.jsonl). Where
protocols were measured one by one, a prediction therefore follows the estimate's choice and takes
the measured time of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf, log2

from gpuscope.cost.collective.types import Group, Way

_RING = {
    "LL": (6.6e-6, 0.6e-6, 2.7e-6),
    "LL128": (14.0e-6, 1.9e-6, 4.0e-6),
    "Simple": (8.4e-6, 3.4e-6, 14.0e-6),
}
_TREE = {
    "LL": (6.8e-6, 0.6e-6, 5.0e-6),
    "LL128": (14.0e-6, 1.25e-6, 8.5e-6),
    "Simple": (8.4e-6, 4.0e-6, 14.0e-6),
}
"""Base, a step over NVLink, a step over the network."""

_PCI = {"LL": 1.0e-6, "LL128": 2.5e-6, "Simple": 5.7e-6}
_NVLS_S, _NVLS_TREE_S = 25e-6, 20.9e-6
_GRAPH_SHARE = 0.8
"""Bandwidth of the rings that NCCL's search finds, of the links' rate: 360 of 450 GB/s, 240 of
300."""

_LL_MOST: Sequence[tuple[float, float]] = ((800e9, 282e9), (400e9, 141e9), (250e9, 87.7e9))
"""From this rate of a link on, LL's bandwidth in one node (Blackwell, Hopper, Ampere)."""

_LL_VOLTA, _LL_FAR = 39e9, 20.4e9
_LL128_CHANNEL, _CHANNELS = 36.7e9, 24
_NVLS_EFFICIENCY, _NVLS_CHANNELS = 0.85, 16
_TREE_FACTOR, _PAT_FACTOR = 0.92, 0.75
_POST_S: Mapping[str, float] = {"LL": 1e-6, "LL128": 1e-6, "Simple": 3e-6}


def estimate_s(operation: str, way: Way, group: Group, size_bytes: float) -> float:
    """NCCL's own estimate of a way's time; infinite for ways that are not NCCL's.

    Args:
        operation: one of `ways.OPERATIONS`.
        way: an algorithm under a protocol.
        group: the ranks and their links.
        size_bytes: the whole message.
    """
    protocol = way.protocol.name
    if protocol not in _RING:
        return inf
    bandwidth = _bandwidth(operation, way.algorithm, protocol, group)
    latency_s = _latency_s(operation, way.algorithm, protocol, group)
    return latency_s + size_bytes / bandwidth if bandwidth > 0 else inf


def _steps(operation: str, n: int) -> int:
    return {"all_reduce": 2 * (n - 1), "broadcast": n}.get(operation, n - 1)


def _ring_bytes_per_s(group: Group) -> float:
    inside = _GRAPH_SHARE * group.link_bytes_per_s
    return min(inside, group.local * group.fabric_bytes_per_s)


def _ll_most(group: Group) -> float:
    if group.domains > 2:
        return _LL_FAR
    if group.domains == 2:
        return _LL_VOLTA
    return next((most for rate, most in _LL_MOST if group.link_bytes_per_s >= rate), _LL_VOLTA)


def _bandwidth(operation: str, algorithm: str, protocol: str, group: Group) -> float:
    """Bytes of the message over the time."""
    n, bus = group.ranks, _ring_bytes_per_s(group)
    steps = _steps(operation, n)
    if algorithm in ("nvls", "nvls_tree"):
        efficiency = _NVLS_EFFICIENCY * (_NVLS_CHANNELS - 1) / _NVLS_CHANNELS
        inside = 2 * efficiency * _GRAPH_SHARE * group.link_bytes_per_s
        between = group.local * group.fabric_bytes_per_s * (2 if group.domains <= 2 else 1)
        return min(inside, between) * n / steps
    if algorithm == "tree":
        bus *= _TREE_FACTOR
        if protocol == "LL":
            bus = min(bus / 3.8, _ll_most(group))
        elif protocol == "LL128":
            bus *= 120 / 128
        return bus / 2
    if algorithm == "collnet":
        return bus
    if protocol == "LL":
        bus = min(_ll_most(group), bus / 2)
    elif protocol == "LL128":
        bus = min(0.92 * bus, _CHANNELS * _LL128_CHANNEL)
    return bus * _PAT_FACTOR if algorithm == "pat" else bus * n / steps


def _latency_s(operation: str, algorithm: str, protocol: str, group: Group) -> float:
    n, k = group.ranks, group.domains
    base_s, link_s, net_s = (_TREE if algorithm == "tree" else _RING)[protocol]
    if group.wiring == "host":
        link_s = _PCI[protocol]
    net_s = _TREE[protocol][2] if group.local == 1 else net_s
    if algorithm == "nvls":
        return _NVLS_S
    if algorithm == "nvls_tree":
        return _NVLS_S + 2 * ceil(log2(k)) * _NVLS_TREE_S
    if algorithm == "tree":
        return base_s + 2 * ((n / k - 1) * link_s + ceil(log2(k)) * net_s)
    if algorithm == "pat":
        return 8e-6 + ceil(log2(k)) * net_s / 3.5 + n * 2.8e-6
    if operation == "broadcast":
        return base_s + (link_s if k == 1 else net_s)
    if k > 1:
        link_s = max(link_s, _POST_S[protocol])
    between = (2 if operation == "all_reduce" else 1) * (k - 1)
    return base_s + (_steps(operation, n) - between) * link_s + between * net_s
