"""Kernels of collectives: one a call, on the links; `collective_ways` has their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf

from gpuscope.cost.collective_ways import (
    Group,
    Tuning,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    gather_s,
    group_of,
    reduce_scatter_s,
    tuning_of,
)
from gpuscope.cost.registry import Constants, Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Cluster, Device
from gpuscope.hardware.cluster import build_cluster
from gpuscope.program.types import TensorSpec

_SPREAD = 0.35
"""Relative 80 % half-width of a collective's time (a judgement)."""


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
    return _collective(work, "all_to_all", all_to_all_s, _bytes(specs), _bytes(specs), _ranks(work))


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


def spread_of(constants: Constants, group: Group) -> float:
    """Relative 80 % half-width of a collective's time.

    What was measured says something of as many ranks in one scale-up domain; more of them, and a
    fabric, keep the wider one.
    """
    found = constants.spread("collective.scale", _SPREAD)
    shares = tuning_of(constants).shares.values()
    measured = max((ranks for known in shares for ranks, _ in known), default=0)
    return found if group.domains == 1 and group.ranks <= measured else max(found, _SPREAD)


def unknown_link(cluster: Cluster, ranks: int) -> UnsupportedError:
    """The error where no source states what a link of the group carries."""
    return UnsupportedError(
        f"A collective of {ranks} ranks cannot be timed on {cluster.name}.",
        "The catalogue states no rate for the links between them.",
        "Choose another device, or predict one device without collectives.",
    )


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
        raise unknown_link(cluster, ranks)
    spread = spread_of(work.constants, group)
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
