"""Kernels of collectives: one a call, on the links; `ways` has their times.

The group is the one that the program recorded (`Work.group`): its real ranks on the cluster. Where
a program does not say, the operator's arguments or the ratio of its tensors give the number of
ranks, which are then neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import hypot, inf, log2

from gpuscope.cost.collective.types import Group, Tuning, Way
from gpuscope.cost.collective.units import units_taken
from gpuscope.cost.collective.ways import PROTOCOLS, chosen, group_of, tuning_of
from gpuscope.cost.registry import Constants, Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.hardware import Cluster, Device
from gpuscope.hardware.cluster import build_cluster
from gpuscope.program.types import TensorSpec

_SPREAD = 0.35
"""Relative 80 % half-width of a collective's time that nobody measured (a judgement)."""

_SPREAD_ELSEWHERE = 0.2
"""Of as many ranks as others measured, with other software (`collective.measured.ranks` says up to
how many the recordings here went)."""

_SPREAD_A_DOUBLING = 0.05
"""What each doubling of the domains adds: contention in a fabric's upper tiers, which no source
states for a particular cluster (a judgement)."""


@kernel_model(
    "_c10d_functional::all_reduce",
    "_c10d_functional::all_reduce_",
    "_c10d_functional::all_reduce_coalesced",
    "_c10d_functional::all_reduce_coalesced_",
    "c10d::allreduce_",
    "c10d::allreduce_coalesced_",
)
def all_reduce(work: Work) -> tuple[Kernel, ...]:
    """Every rank gets the sum of all ranks' tensors."""
    size = total_bytes(work.inputs)
    return collective(work, "all_reduce", size, size, members_of(work))


@kernel_model(
    "_c10d_functional::all_gather_into_tensor",
    "_c10d_functional::all_gather_into_tensor_out",
    "_c10d_functional::all_gather_into_tensor_coalesced",
    "c10d::_allgather_base_",
    "c10d::allgather_into_tensor_coalesced_",
    "c10d::allgather_",
    "c10d::allgather_coalesced_",
)
def all_gather(work: Work) -> tuple[Kernel, ...]:
    """Every rank gets all ranks' tensors."""
    whole, part = whole_and_part(work)
    return collective(work, "all_gather", whole, whole, members_of(work, whole, part))


@kernel_model(
    "_c10d_functional::reduce_scatter_tensor",
    "_c10d_functional::reduce_scatter_tensor_out",
    "_c10d_functional::reduce_scatter_tensor_coalesced",
    "c10d::_reduce_scatter_base_",
    "c10d::reduce_scatter_tensor_coalesced_",
    "c10d::reduce_scatter_",
)
def reduce_scatter(work: Work) -> tuple[Kernel, ...]:
    """Every rank gets its part of the sum."""
    whole, part = whole_and_part(work)
    return collective(work, "reduce_scatter", whole, part, members_of(work, whole, part))


@kernel_model("_c10d_functional::all_to_all_single", "c10d::alltoall_base_", "c10d::alltoall_")
def all_to_all(work: Work) -> tuple[Kernel, ...]:
    """Every rank sends another part of its tensor to every other.

    Unequal parts are taken as equal ones of the larger of what is sent and what is received: the
    fullest rank sets the time. With "copies" among the arguments a token's copies for that many
    experts go as one to each rank, or over a fabric to each scale-up domain.
    """
    sent, received = read_and_written(work)
    members = members_of(work)
    share = _once(work, members, int(str(work.op.args.get("copies", 1))))
    size = max(sent, received) * share
    return collective(work, "all_to_all", size, received * share or size, members)


def _once(work: Work, members: Sequence[int], copies: int) -> float:
    """Share of an exchange that is left where copies for the same place go as one.

    Each copy is for any of n places alike, so n (1 - (1 - 1/n)^copies) of them get one.
    """
    if copies <= 1:
        return 1.0
    group = group_of(cluster_of(work, members), members)
    places = group.domains if group.domains > 1 else group.ranks
    return places * (1 - (1 - 1 / places) ** copies) / copies


@kernel_model(
    "_c10d_functional::broadcast",
    "_c10d_functional::broadcast_",
    "c10d::broadcast_",
    "c10d::reduce_",
)
def broadcast(work: Work) -> tuple[Kernel, ...]:
    """One rank's tensor to all, or the sum of all to one."""
    size = total_bytes(work.inputs)
    return collective(work, "broadcast", size, size, members_of(work))


@kernel_model("c10d::barrier")
def barrier(work: Work) -> tuple[Kernel, ...]:
    """ProcessGroupNCCL makes it an all-reduce of one number."""
    return collective(work, "all_reduce", 4.0, 4.0, members_of(work), name="barrier")


@kernel_model("_c10d_functional::wait_tensor")
def wait_tensor(work: Work) -> tuple[Kernel, ...]:
    """Only an order: what reads the tensor waits for the collective."""
    return ()


def total_bytes(specs: Sequence[TensorSpec]) -> float:
    """Bytes of several tensors."""
    return float(sum(t.nbytes for t in specs))


def read_and_written(work: Work) -> tuple[float, float]:
    """Bytes that a collective reads and writes.

    The functional forms have them as inputs and outputs; the others take their results as
    arguments too, first (and a recording may leave them out of the outputs: then as many of one
    as of the other).
    """
    inputs, outputs = work.inputs, work.outputs
    if not work.op.name.startswith("c10d::"):
        return total_bytes(inputs), total_bytes(outputs)
    if outputs:
        written = total_bytes(outputs)
        return total_bytes(inputs) - written, written
    half = len(inputs) // 2
    return total_bytes(inputs[half:]), total_bytes(inputs[:half])


def whole_and_part(work: Work) -> tuple[float, float]:
    """Bytes of the whole message and of one rank's part."""
    a, b = read_and_written(work)
    return max(a, b), min(a, b)


def members_of(work: Work, whole: float = 0.0, part: float = 0.0) -> Sequence[int]:
    """Ranks of the group: as recorded, else as many as sizes say, else the whole cluster."""
    if work.group is not None:
        return work.group.ranks
    for name in ("group_size", "world_size"):
        recorded = work.op.args.get(name)
        if isinstance(recorded, int) and recorded > 0:
            return range(recorded)
    if part > 0 and whole > part:
        return range(round(whole / part))
    return range(work.cluster.n_devices if work.cluster is not None else 1)


def is_other_sum(work: Work) -> bool:
    """Whether a reduction is no plain sum (FSDP2 averages, for one)."""
    said = work.op.args.get("reduce_op", work.op.args.get("reduceOp", ""))
    text = str(said).lower()
    return any(word in text for word in ("avg", "max", "min", "product", "premul"))


def spread_of(constants: Constants, group: Group) -> float:
    """Relative 80 % half-width of a collective's time.

    What was measured says something of as many ranks in one scale-up domain; more of them, and a
    fabric, keep the wider one, a fabric's growing with the domains.
    """
    found = constants.spread("collective.scale")
    if group.domains > 1:
        return hypot(max(found, _SPREAD), _SPREAD_A_DOUBLING * log2(group.domains))
    if group.ranks > tuning_of(constants).most_ranks():
        return max(found, _SPREAD)
    return (
        found
        if group.ranks <= constants.value("collective.measured.ranks")
        else (max(found, _SPREAD_ELSEWHERE))
    )


def unknown_link(cluster: Cluster, ranks: int) -> UnsupportedError:
    """The error where no source states what a link of the group carries."""
    return UnsupportedError(
        Text(
            "A collective of {ranks} ranks cannot be timed on {cluster}.",
            ranks=ranks,
            cluster=cluster.name,
        ),
        Text("The catalogue states no rate for the links between them."),
        Text("Choose another device, or predict one device without collectives."),
    )


@lru_cache(maxsize=64)
def _cluster_for(device: Device, ranks: int) -> Cluster:
    return build_cluster(device, ranks)


def cluster_of(work: Work, members: Sequence[int]) -> Cluster:
    """The work's cluster; as small a one as holds the ranks where it has none, or too few devices.

    Raises:
        InvalidValueError: so many of this device cannot be one cluster.
    """
    least = max(len(members), max(members) + 1)
    if work.cluster is not None and work.cluster.n_devices >= least:
        return work.cluster
    full = work.device.devices_per_node or 1
    return _cluster_for(work.device, least if least <= full else -(-least // full) * full)


def alone_s(
    device: Device,
    constants: Constants,
    operation: str,
    size_bytes: float,
    members: Sequence[int],
    world_size: int = 0,
) -> tuple[float, float] | None:
    """Time of a collective whose ranks all come at once, and the end of its 80 % interval.

    What `explain collective` says of it, of a group inside one scale-up domain.

    Args:
        device: of every rank.
        constants: calibrated constants of the device.
        operation: one of `ways.OPERATIONS`.
        size_bytes: the whole message.
        members: global ranks of the group.
        world_size: ranks of the run; 0: as many as the group's numbers need.

    Returns:
        None for a group of one or of several domains, and where no source states a link's rate.
    """
    if len(members) <= 1 or not size_bytes:
        return None
    least, full = max(world_size, max(members) + 1), device.devices_per_node or 1
    try:
        cluster = _cluster_for(device, least if least <= full else -(-least // full) * full)
    except InvalidValueError:
        return None
    group = group_of(cluster, members)
    time_s = chosen(operation, group, size_bytes, tuning_of(constants)).time_s
    if group.domains > 1 or time_s == inf:
        return None
    return time_s, time_s * (1 + spread_of(constants, group))


def collective(
    work: Work,
    operation: str,
    size_bytes: float,
    written_bytes: float,
    members: Sequence[int],
    name: str = "",
) -> tuple[Kernel, ...]:
    """The kernel of a collective; none for a group of one.

    Args:
        work: the operator on its device and cluster.
        operation: one of `ways.OPERATIONS`.
        size_bytes: the whole message.
        written_bytes: of the result, on this rank.
        members: global ranks of the group.
        name: what to call it, if not as the operation.

    Raises:
        UnsupportedError: no source states the rate of a link that the group needs.
        InvalidValueError: so many of this device cannot be one cluster.
    """
    if len(members) <= 1 or not size_bytes:
        return ()
    cluster = cluster_of(work, members)
    group, tuning = group_of(cluster, members), tuning_of(work.constants)
    taken = chosen(operation, group, size_bytes, tuning)
    if tuning.other_sum_s and taken.protocol.name != "Simple" and is_other_sum(work):
        longer_s = taken.latency_s + tuning.other_sum_s
        taken = replace(taken, latency_s=longer_s, base_s=taken.base_s + tuning.other_sum_s)
    if taken.time_s == inf:
        raise unknown_link(cluster, len(members))
    spread = spread_of(work.constants, group)
    high_s = max(taken.time_s, _slowest_s(operation, group, size_bytes, tuning))
    return (
        link_kernel(
            work,
            name or operation,
            taken,
            group,
            (taken.time_s / (1 + spread), high_s * (1 + spread)),
            (size_bytes, written_bytes),
        ),
    )


def _slowest_s(operation: str, group: Group, size_bytes: float, tuning: Tuning) -> float:
    """With the steps' latencies of NCCL's tuner, where more ranks take part than were measured."""
    if not tuning.measured or group.local <= tuning.most_ranks():
        return 0.0
    known = {p.name: p for p in PROTOCOLS}
    slower = replace(
        tuning,
        measured=False,
        protocols=tuple(
            replace(p, link_s=max(p.link_s, known[p.name].link_s)) for p in tuning.protocols
        ),
    )
    return chosen(operation, group, size_bytes, slower).time_s


_SET_ASIDE = {"all_gather": 1, "reduce_scatter": 16}
"""Multiprocessors of a collective beside its own product: Transformer Engine's ring exchange takes
one, its pipelined reduce-scatters 8 to 24 (megatron/bridge/training/comm_overlap.py, the
configurations for H100 and B200)."""


def link_kernel(
    work: Work,
    name: str,
    taken: Way,
    group: Group,
    interval_s: tuple[float, float],
    moved: tuple[float, float],
) -> Kernel:
    """A way as a kernel on the link's lane."""
    size_bytes, written_bytes = moved
    where = Text("one scale-up domain")
    if group.domains > 1:
        where = Text("{domains} domains", domains=group.domains)
    units = units_taken(taken, group, work.device)
    set_aside = bool(work.op.args.get("overlapped"))
    if set_aside:
        units = min(units, _SET_ASIDE.get(name, units))
    return Kernel(
        name=f"collective_{name}",
        kind="collective",
        op=work.op.index,
        duration_s=taken.time_s,
        low_s=interval_s[0],
        high_s=interval_s[1],
        read_bytes=size_bytes,
        written_bytes=written_bytes,
        least_bytes=size_bytes + written_bytes,
        grid=max(units, 1),
        limiter="link",
        dtype=work.inputs[0].dtype if work.inputs else "",
        origin="estimated",
        lane="link",
        scope="domain" if group.domains == 1 else "fabric",
        note=Text("{ranks} ranks in {where}", ranks=group.ranks, where=where),
        units=units,
        algorithm=taken.algorithm,
        protocol=taken.protocol.name,
        sent_bytes=taken.sent_bytes,
        moving_s=taken.moving_s,
        set_aside=set_aside,
    )
