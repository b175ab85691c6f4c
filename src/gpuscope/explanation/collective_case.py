"""One collective on one cluster: what it moves, every way to run it, and the one that is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from gpuscope.api import Target, resolve_calibration, resolve_target
from gpuscope.cost.collective.model import spread_of, unknown_link
from gpuscope.cost.collective.units import units_taken
from gpuscope.cost.collective.ways import (
    OPERATIONS,
    Group,
    Tuning,
    Way,
    chosen,
    group_of,
    tuning_of,
    ways,
)
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation.amounts import amount_bytes
from gpuscope.explanation.equal_work import ITEM_BYTES
from gpuscope.hardware import Cluster, Device, Interconnect, calibration_for, rate_name
from gpuscope.hardware.cluster import build_cluster

EXAMPLE = "gpuscope explain collective all_reduce 64MB --on 8xh200"

_SPELLINGS: Mapping[str, str] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "bcast": "broadcast",
}


@dataclass(frozen=True)
class CollectiveCase:
    """A collective that can be timed at any size.

    Attributes:
        operation: one of `gpuscope.cost.collective.ways.OPERATIONS`.
        size_bytes: the whole message.
        dtype: catalogue's rate name of its elements.
        cluster: what it runs on; all devices take part.
        constants: calibrated constants of the device.
    """

    operation: str
    size_bytes: int
    dtype: str
    cluster: Cluster
    constants: Constants

    @property
    def ranks(self) -> int:
        """One for each device."""
        return self.cluster.n_devices

    @property
    def device(self) -> Device:
        """The kind of device."""
        return self.cluster.device

    @cached_property
    def group(self) -> Group:
        """The ranks and what they get of the links."""
        return group_of(self.cluster, self.ranks)

    @cached_property
    def tuning(self) -> Tuning:
        """How collectives run here, as far as it was measured."""
        return tuning_of(self.constants)

    @cached_property
    def link(self) -> Interconnect | None:
        """The link inside a domain; the host's where there is no other."""
        own = self.cluster.scale_up
        return own if own is not None and self.group.local > 1 else self.cluster.host_link

    @property
    def elements(self) -> int:
        """Elements of the message."""
        return self.size_bytes // ITEM_BYTES[self.dtype]

    @property
    def origin(self) -> str:
        """ "calibrated" where as many ranks of this very device were measured, in one domain."""
        inside = self.group.domains == 1 and self.ranks <= self.measured_ranks
        return "calibrated" if inside else "estimated"

    @property
    def measured_ranks(self) -> int:
        """Most ranks with which this operation was measured on this device; 0 for none."""
        return max((n for n, _ in self.tuning.shares.get(self.operation, ())), default=0)

    def ways(self, size_bytes: float | None = None) -> tuple[Way, ...]:
        """Every way to run it: what the library takes, then the others, fastest first."""
        amount = self.size_bytes if size_bytes is None else size_bytes
        taken = chosen(self.operation, self.group, amount, self.tuning)
        found = ways(self.operation, self.group, amount, self.tuning)
        return (taken, *sorted((w for w in found if w != taken), key=lambda way: way.time_s))

    @cached_property
    def taken(self) -> Way:
        """The way that the library takes."""
        return self.ways()[0]

    @cached_property
    def kernel(self) -> Kernel:
        """The collective as what runs on the device."""
        taken, (low_s, high_s) = self.taken, self.interval_s
        return Kernel(
            f"collective_{self.operation}",
            "collective",
            0,
            taken.time_s,
            low_s,
            high_s,
            read_bytes=float(self.size_bytes),
            lane="link",
            scope="domain" if self.group.domains == 1 else "fabric",
            limiter="link",
            units=units_taken(taken, self.group, self.device),
            algorithm=taken.algorithm,
            protocol=taken.protocol.name,
            sent_bytes=taken.sent_bytes,
            moving_s=taken.moving_s,
        )

    def time_s(self, size_bytes: float) -> float:
        """The fastest way's time at a size."""
        return self.ways(size_bytes)[0].time_s

    @property
    def interval_s(self) -> tuple[float, float]:
        """80 % interval of the time."""
        spread = spread_of(self.constants, self.group)
        return self.taken.time_s / (1 + spread), self.taken.time_s * (1 + spread)

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth, as nccl-tests define it."""
        n = self.ranks
        return {"all_reduce": 2 * (n - 1) / n, "broadcast": 1.0}.get(self.operation, (n - 1) / n)

    def bus_bytes_per_s(self, size_bytes: float, time_s: float) -> float:
        """What the busiest way of a rank carries, if the algorithm were the best possible."""
        return self.bus_factor * size_bytes / time_s

    @property
    def roof_bytes_per_s(self) -> float:
        """What bus bandwidth is held against: a rank's link, or its share of the fabric.

        An all-to-all leaves a domain by each rank's own port; a ring by all ports of a domain.
        """
        group = self.group
        if self.operation == "all_to_all" and group.domains > 1:
            # The bytes that stay inside are free beside those that leave.
            leaving = (group.ranks - group.local) / (group.ranks - 1)
            return min(group.link_bytes_per_s, group.fabric_bytes_per_s / leaving)
        return group.ring_bytes_per_s

    def at(self, operation: str | None = None, ranks: int | None = None) -> CollectiveCase | None:
        """The same with another operation or number of ranks; None where that cannot be."""
        made = self if operation is None else replace(self, operation=operation)
        if ranks is not None and ranks != self.ranks:
            full = self.device.devices_per_node or 1
            each = self.cluster.devices_per_node if self.cluster.nodes > 1 else full
            try:
                cluster = build_cluster(self.device, ranks, min(ranks, each))
            except InvalidValueError:
                return None
            made = replace(made, cluster=cluster)
        return None if made.taken.time_s == inf else made


def make_case(operation: str, amount: str | float, on: Target, dtype: str) -> CollectiveCase:
    """The case that a user asked for, checked.

    Raises:
        UnknownNameError: no such collective, device or dtype.
        InvalidValueError: no bytes, one rank, half an element, more than a device holds.
        UnsupportedError: a dtype that no collective moves, or links of unknown rate.
    """
    name = operation.strip().lower().replace("-", "_")
    name = _SPELLINGS.get(name.replace("_", ""), name)
    if name not in OPERATIONS:
        hint = Text("Type: {example}", example=EXAMPLE)
        raise UnknownNameError(Text("collective"), operation, OPERATIONS, hint)
    cluster = resolve_target(on)
    device = cluster.device
    nbytes = amount_bytes(amount, "message", EXAMPLE)
    element = _element(dtype)
    if cluster.n_devices == 1:
        raise InvalidValueError(
            Text("One {device} has nobody to talk to.", device=device.name),
            Text("A collective has two ranks or more, one a device."),
            Text(
                "Type for example: --on {value}x{id}",
                value=device.devices_per_node or 8,
                id=device.id,
            ),
        )
    if nbytes % ITEM_BYTES[element]:
        raise InvalidValueError(
            Text(
                "{nbytes} is no whole number of {element} elements.",
                nbytes=Bytes(nbytes),
                element=element,
            ),
            Text("Each has {item} bytes.", item=ITEM_BYTES[element]),
            Text("Give another size or --dtype."),
        )
    if nbytes > device.memory_usable_bytes:
        raise InvalidValueError(
            Text("A message of {nbytes} does not fit on a rank.", nbytes=Bytes(nbytes)),
            Text(
                "{device} has {memory_usable} for a program, and every rank holds the whole "
                "message before or after.",
                device=device.name,
                memory_usable=Bytes(device.memory_usable_bytes),
            ),
            Text("Give a smaller size, or send it in parts."),
        )
    constants = Constants(resolve_calibration(on) or calibration_for(device))
    case = CollectiveCase(name, nbytes, element, cluster, constants)
    if case.taken.time_s == inf:
        raise unknown_link(cluster, case.ranks)
    return case


def _element(dtype: str) -> str:
    name = rate_name(dtype)
    if name not in ITEM_BYTES:
        raise UnsupportedError(
            Text("Collectives of {dtype} are not modelled.", dtype=dtype),
            Text("NCCL moves no elements of half a byte."),
            Text("Choose one of: {item}.", item=", ".join(ITEM_BYTES)),
        )
    return "fp32" if name == "tf32" else name
