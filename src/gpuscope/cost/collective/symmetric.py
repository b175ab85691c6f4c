"""PyTorch's own collectives over symmetric memory, which every rank of a domain can read.

One shot: each rank reads all others' whole tensors and adds them itself, (n - 1) S into each link
with two flags exchanged; the fastest for small messages. Two shots: it adds its own part and reads
the other parts' sums, 2 (n - 1) / n S. With multimem instructions the switch adds, as NVLS does
(torch/csrc/distributed/c10d/CUDASymmetricMemoryOps.cu).
"""

from __future__ import annotations

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
from gpuscope.cost.collective.types import Group, Protocol, Tuning, Way, way
from gpuscope.cost.collective.ways import group_of, tuning_of
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

DIRECT = Protocol("direct", 1.0, 5.7e-6, 0.4e-6, inf, inf)
"""Loads and stores to other devices' memory: a launch with a barrier before and one behind, each a
flag written to all others and polled. One shot of 1 KiB takes 6.2 us between two H200s
(validation/recordings/h200/overlap-2.jsonl, part `symmetric`, less 2 us between kernels)."""

SHARE, ONE_SHOT_SHARE = 0.73, 0.42
"""Share of a link's rate that loads and stores reach; less where each rank reads whole tensors (the
same recording, 4 to 16 MiB)."""


@kernel_model(
    "symm_mem::one_shot_all_reduce",
    "symm_mem::one_shot_all_reduce_out",
    "symm_mem::one_shot_all_reduce_copy",
    "symm_mem::one_shot_all_reduce_copy_out",
)
def one_shot(work: Work) -> tuple[Kernel, ...]:
    """All-reduce in which every rank reads everything."""
    return _kernel(work, "one_shot", total_bytes(work.inputs[:1]))


@kernel_model("symm_mem::two_shot_all_reduce_", "symm_mem::two_shot_all_reduce_out")
def two_shot(work: Work) -> tuple[Kernel, ...]:
    """All-reduce in two halves: a reduce-scatter and an all-gather."""
    return _kernel(work, "two_shot", total_bytes(work.inputs[:1]))


@kernel_model(
    "symm_mem::multimem_all_reduce_",
    "symm_mem::multimem_one_shot_all_reduce",
    "symm_mem::multimem_one_shot_all_reduce_out",
)
def multimem(work: Work) -> tuple[Kernel, ...]:
    """All-reduce in which the switch adds."""
    return _kernel(work, "multimem", total_bytes(work.inputs[:1]))


@kernel_model("symm_mem::multimem_all_gather_out", "symm_mem::reduce_scatter_out")
def one_way(work: Work) -> tuple[Kernel, ...]:
    """A gather or a scatter: half of what two shots move."""
    return _kernel(work, "one_way", max(read_and_written(work)))


def symmetric_way(kind: str, group: Group, size_bytes: float, tuning: Tuning) -> Way:
    """The way of one of these collectives.

    Args:
        kind: one_shot, two_shot, multimem or one_way.
        group: ranks of one domain; over a fabric there is no such memory, and the time infinite.
        size_bytes: the whole message.
        tuning: how collectives run on the machine.
    """
    n = group.ranks
    times = {"one_shot": n - 1.0, "two_shot": 2 * (n - 1) / n, "multimem": 1 + 1 / n}
    sent = times.get(kind, (n - 1) / n) * size_bytes
    share = tuning.share("symmetric", n, ONE_SHOT_SHARE if kind == "one_shot" else SHARE)
    if kind == "multimem":
        share = tuning.share("nvls", n, tuning.nvls_share)
    steps = 2 if kind == "two_shot" else 1
    base_s = tuning.extra_s.get("symmetric", DIRECT.base_s)
    between = 1 if group.domains > 1 else 0
    rate = share * group.link_bytes_per_s
    return way(
        kind, DIRECT, (steps, between), (base_s, DIRECT.link_s, inf if between else 0.0), sent, rate
    )


def _kernel(work: Work, kind: str, size_bytes: float) -> tuple[Kernel, ...]:
    members = members_of(work)
    if len(members) < 2 or not size_bytes:
        return ()
    cluster = cluster_of(work, members)
    group = group_of(cluster, members)
    taken = symmetric_way(kind, group, size_bytes, tuning_of(work.constants))
    if taken.time_s == inf:
        raise unknown_link(cluster, len(members))
    spread = spread_of(work.constants, group)
    interval_s = (taken.time_s / (1 + spread), taken.time_s * (1 + spread))
    return (link_kernel(work, kind, taken, group, interval_s, (size_bytes, size_bytes)),)
