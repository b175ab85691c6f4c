"""`Cluster`: many devices, how they are wired, and what was assumed about it.

A target such as "8xh200" names a device and a number; the rest (devices a node, the scale-up
domain, the fabric between nodes) follows from the catalogue's defaults for that device, and every
default that was taken is stated in `Cluster.assumptions`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from gpuscope.document.printable import counted, short_repr
from gpuscope.document.quantities import ByteRate, Number
from gpuscope.document.text import Text, plural
from gpuscope.errors import InvalidValueError
from gpuscope.hardware.device import Device
from gpuscope.hardware.interconnect import Interconnect
from gpuscope.hardware.loader import device as device_named
from gpuscope.hardware.names import is_device

_TARGET = re.compile(
    r"^\s*(?:(?P<first>\d+)\s*[x×*]\s*)?(?:(?P<second>\d+)\s*[x×*]\s*)?(?P<name>\S.*?)\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One host with its devices.

    Attributes:
        device: the kind of device.
        n_devices: how many of them.
        host_link: each device's link to the host; None where it shares the host's memory or
            no source states it.
        scale_up: the link between the devices; None where they can only use the host link.
    """

    device: Device
    n_devices: int
    host_link: Interconnect | None
    scale_up: Interconnect | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal nodes of equal devices.

    Attributes:
        device: the kind of device.
        n_devices: devices in all; one rank (process) each.
        nodes: hosts.
        devices_per_node: devices on each host.
        scale_up_domain_devices: how many devices reach each other over scale-up links; it can
            span hosts (NVL72, TPU slices) or be a part of one (bridged pairs).
        host_link: device to host, per device.
        scale_up: links inside a scale-up domain, per device; None for devices without.
        scale_out: the fabric between domains, one port; None where everything is in one domain
            or one node.
        scale_out_bandwidth_bytes_per_s: what one device gets of the fabric, one direction.
        scale_out_latency_s: one message over the fabric, end to end.
        torus_shape: the shape of a scale-up domain that is a torus, such as (4, 4, 4).
        assumptions: what was taken for granted, in sentences.
    """

    device: Device
    n_devices: int
    nodes: int
    devices_per_node: int
    scale_up_domain_devices: int
    host_link: Interconnect | None
    scale_up: Interconnect | None
    scale_out: Interconnect | None
    scale_out_bandwidth_bytes_per_s: float | None
    scale_out_latency_s: float | None
    torus_shape: tuple[int, ...] | None = None
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(cls, device: Device) -> Cluster:
        """One device by itself, with its own links."""
        return build_cluster(device, 1)

    def __repr__(self) -> str:
        return short_repr(
            self,
            f"{self.n_devices}x{self.device.id}",
            self.device.name,
            counted(self.nodes, "node"),
        )

    @property
    def node(self) -> Node:
        """One of the nodes."""
        return Node(self.device, self.devices_per_node, self.host_link, self.scale_up)

    @property
    def domains(self) -> int:
        """How many scale-up domains there are."""
        return self.n_devices // self.scale_up_domain_devices

    @property
    def memory_bytes(self) -> int:
        """Memory of all devices together, bytes."""
        return self.n_devices * self.device.memory_bytes

    @property
    def price_usd_per_hour(self) -> float | None:
        """Price of all devices together, USD/hour; None where no price is known."""
        price = self.device.price_usd_per_hour
        return None if price is None else price * self.n_devices

    @property
    def name(self) -> str:
        """Short name, such as "2x8x nvidia-h200-sxm"."""
        if self.n_devices == 1:
            return self.device.id
        count = f"{self.nodes}x{self.devices_per_node}" if self.nodes > 1 else f"{self.n_devices}"
        return f"{count}x {self.device.id}"

    def with_device(self, device: Device) -> Cluster:
        """Return the same cluster made of another (what-if) device, links included."""
        return build_cluster(device, self.n_devices, self.devices_per_node)


def parse_target(text: str) -> Cluster:
    """Read a target: "h200", "8xh200", "2x8xh200" (nodes x devices x name), "64xtpu-v5p".

    Raises:
        UnknownNameError: no such device.
        InvalidValueError: a cluster that cannot exist (0 devices, a node and a half).
    """
    match = _TARGET.match(text)
    if match is None:
        raise InvalidValueError(
            Text("The target is empty."),
            Text("It names a device."),
            Text("Type for example: --on 8xh200"),
        )
    first, second, name = _counted(match)
    device = device_named(name)
    if first is not None and second is not None:
        nodes, per_node = int(first), int(second)
        if nodes == 0 or per_node == 0:
            _refuse_zero(text)
        return build_cluster(device, nodes * per_node, per_node)
    count = int(first) if first is not None else 1
    if count == 0:
        _refuse_zero(text)
    return build_cluster(device, count)


def _counted(match: re.Match[str]) -> tuple[str | None, str | None, str]:
    """The counts and the name: "7900xtx" is a device, not 7900 of "tx"."""
    first, second, name = match["first"], match["second"], match["name"]
    if first is None or is_device(name):
        return first, second, name
    whole = match.string[match.start("first") : match.end("name")]
    if is_device(whole):
        return None, None, whole
    rest = match.string[match.start("second") : match.end("name")]
    if second is not None and is_device(rest):
        return first, None, rest
    return first, second, name


MOST_DEVICES = 1_048_576
"""Devices of the largest cluster that is predicted."""


def build_cluster(device: Device, n_devices: int, devices_per_node: int | None = None) -> Cluster:
    """Return a cluster of `n_devices`, on full nodes unless `devices_per_node` says otherwise.

    Raises:
        InvalidValueError: a cluster that cannot exist.
    """
    if n_devices < 1:
        _refuse_zero(f"{n_devices}x{device.id}")
    if n_devices > MOST_DEVICES:
        raise InvalidValueError(
            Text(
                "A cluster of {devices} devices is larger than {most}.",
                devices=Number(n_devices, ","),
                most=Number(MOST_DEVICES, ","),
            ),
            Text("No machine of that size is known, and no model here was held against one."),
            Text(
                "Ask for {most} or fewer, for example: 16384x{id}",
                most=Number(MOST_DEVICES, ","),
                id=device.id,
            ),
        )
    per_node = _devices_per_node(device, n_devices, devices_per_node)
    nodes = n_devices // per_node
    domain = _domain_devices(device, n_devices, per_node)
    if nodes > 1 and domain < n_devices and device.scale_out is None:
        raise InvalidValueError(
            Text(
                "{devices} x {device} cannot be one cluster.", devices=n_devices, device=device.name
            ),
            Text(
                "The catalogue knows no link between more than {domain} of them.",
                domain=max(domain, per_node),
            ),
            Text("Use at most {domain}.", domain=max(domain, per_node)),
        )
    scale_out = device.scale_out if nodes > 1 and domain < n_devices else None
    bandwidth, latency_s = _fabric(device, scale_out)
    shape = torus_shape(device.scale_up, domain)
    cluster = Cluster(
        device=device,
        n_devices=n_devices,
        nodes=nodes,
        devices_per_node=per_node,
        scale_up_domain_devices=domain,
        host_link=device.host_link,
        scale_up=device.scale_up if domain > 1 else None,
        scale_out=scale_out,
        scale_out_bandwidth_bytes_per_s=bandwidth,
        scale_out_latency_s=latency_s,
        torus_shape=shape,
    )
    return replace(cluster, assumptions=_assumptions(cluster))


def _refuse_zero(text: str) -> None:
    raise InvalidValueError(
        Text("'{text}' has no devices.", text=text),
        Text("A cluster has one device or more."),
        Text("Type for example: 8xh200"),
    )


def _devices_per_node(device: Device, n_devices: int, asked: int | None) -> int:
    most = device.devices_per_node or 1
    if asked is not None and asked > most:
        raise InvalidValueError(
            Text("A node cannot hold {asked} x {device}.", asked=asked, device=device.name),
            Text("The largest node in the catalogue holds {most}.", most=most),
            Text(
                "Type for example: {nodes}x{most}x{id}",
                nodes=math.ceil(n_devices / most),
                most=most,
                id=device.id,
            ),
        )
    per_node = asked or min(n_devices, most)
    if n_devices % per_node:
        below = n_devices // most * most
        raise InvalidValueError(
            Text(
                "{devices} x {device} is {nodes} nodes.",
                devices=n_devices,
                device=device.name,
                nodes=Number(n_devices / most, ",.10g"),
            ),
            Text("A node holds {most}, and all nodes of a cluster are equal.", most=most),
            Text(
                "Use {below} or {above}, or say the shape: <nodes>x<devices>x{id}.",
                below=below,
                above=below + most,
                id=device.id,
            ),
        )
    is_torus = device.scale_up is not None and device.scale_up.wiring == "torus"
    options = device.devices_per_node_options
    if is_torus and options and per_node not in options:
        raise InvalidValueError(
            Text(
                "{per_node} x {device} on one host cannot be.",
                per_node=per_node,
                device=device.name,
            ),
            Text("Hosts and slices come with {counts}.", counts=", ".join(map(str, options))),
            Text("Use one of these numbers, or a multiple of {most}.", most=most),
        )
    return per_node


def _domain_devices(device: Device, n_devices: int, per_node: int) -> int:
    """Devices that one scale-up domain joins: equal domains, as large as they can be."""
    if device.scale_up is None:
        return 1
    most = device.scale_up_max_devices or device.devices_per_node or 1
    spans_hosts = most > (device.devices_per_node or 1)
    if spans_hosts and most >= per_node:
        nodes = n_devices // per_node
        fitting = (k for k in range(1, nodes + 1) if nodes % k == 0 and k * per_node <= most)
        return per_node * max(fitting)
    return max(k for k in range(1, per_node + 1) if per_node % k == 0 and k <= most)


def _fabric(device: Device, scale_out: Interconnect | None) -> tuple[float | None, float | None]:
    """Return what one device gets of the fabric: bytes/s one way, and its latency, seconds."""
    if scale_out is None or scale_out.bandwidth_bytes_per_s is None:
        return None, None
    full_node = device.devices_per_node or 1
    ports = device.scale_out_ports_per_node or full_node
    return scale_out.bandwidth_bytes_per_s * ports / full_node, scale_out.latency_s


def torus_shape(link: Interconnect | None, n_devices: int) -> tuple[int, ...] | None:
    """Return the most cube-like shape of a torus of `n_devices`; None if the link is no torus.

    A 3-D torus of 64 is (4, 4, 4); a 2-D torus of 16 is (4, 4).
    """
    if link is None or link.torus_dimensions is None or n_devices < 2:
        return None
    # Trainium: 4 x 4 on an instance, a third dimension between instances.
    flat = n_devices <= (link.torus_plane_devices or 0)
    return _near_cube(n_devices, 2 if flat else link.torus_dimensions)


def _near_cube(n: int, dimensions: int) -> tuple[int, ...]:
    if dimensions == 1:
        return (n,)
    side = round(n ** (1 / dimensions))
    best = max((k for k in range(1, n + 1) if n % k == 0 and k <= side), default=1)
    return tuple(sorted((best, *_near_cube(n // best, dimensions - 1))))


def _assumptions(cluster: Cluster) -> tuple[str, ...]:
    device = cluster.device
    said: list[Text] = []
    full_node = device.devices_per_node or 1
    if device.package_devices > 1:
        said.append(
            Text(
                "{device}: PyTorch sees the package as several devices; one is counted.",
                device=device.name,
            )
        )
    if cluster.n_devices == 1:
        return tuple(said)
    said.append(_nodes(cluster))
    if cluster.devices_per_node < full_node:
        said.append(
            Text("The nodes are built for {slots}; the other slots are not used.", slots=full_node)
        )
    said.extend(_scale_up_assumptions(cluster))
    if cluster.scale_out is not None:
        rate = cluster.scale_out_bandwidth_bytes_per_s or 0.0
        ports = device.scale_out_ports_per_node or full_node
        said.append(
            plural(
                "{link} between {what}: {count} port a node, {rate} per device each way, not "
                "blocking.",
                "{link} between {what}: {count} ports a node, {rate} per device each way, not "
                "blocking.",
                ports,
                link=cluster.scale_out.name,
                what=Text("nodes") if cluster.nodes > 1 else Text("domains"),
                rate=ByteRate(rate),
            )
        )
    return tuple(said)


def _nodes(cluster: Cluster) -> Text:
    return plural(
        "{count} node with {devices} each.",
        "{count} nodes with {devices} each.",
        cluster.nodes,
        devices=plural("{count} device", "{count} devices", cluster.devices_per_node),
    )


def _scale_up_assumptions(cluster: Cluster) -> list[Text]:
    device, domain = cluster.device, cluster.scale_up_domain_devices
    link = cluster.scale_up
    if link is None:
        host = device.host_link.name if device.host_link else Text("the host")
        if cluster.devices_per_node == 1:
            return []
        return [Text("No scale-up link: devices of a node talk over {link}.", link=host)]
    rate = link.bandwidth_bytes_per_s
    speed = Text("rate not stated")
    if rate:
        speed = Text("{rate} per device each way", rate=ByteRate(rate))
    said = [
        Text(
            "{link} joins {devices} devices ({speed}; {topology}).",
            link=link.name,
            devices=domain,
            speed=speed,
            topology=link.topology or Text("topology unknown"),
        )
    ]
    if cluster.torus_shape:
        shape = "x".join(map(str, cluster.torus_shape))
        said.append(
            Text("The torus is taken as {shape}, with wrap-around on full axes only.", shape=shape)
            if link.torus_closed
            else Text("The mesh is taken as {shape}; its edges are open.", shape=shape)
        )
    if domain < cluster.devices_per_node:
        said.append(Text("Devices of one node outside a domain talk over the host link."))
    most = device.scale_up_max_devices or 0
    if cluster.n_devices > domain and domain > cluster.devices_per_node and domain < most:
        said.append(
            Text("Domains could join {most}; {used} makes them equal.", most=most, used=domain)
        )
    return said
