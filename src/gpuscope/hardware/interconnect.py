"""A link between a device and something else: its host, its neighbours, other nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Wiring = Literal["switch", "mesh", "ring", "torus"]


@dataclass(frozen=True, slots=True)
class Interconnect:
    """One kind of link, as one device sees it.

    Attributes:
        id: catalogue identifier, such as "nvlink-4".
        name: the name on the box.
        kind: "host", "coherent-host", "scale-up", "switch", "scale-out", "scale-up-and-out"
            or "memory-fabric".
        vendor: who makes or specifies it.
        bandwidth_bytes_per_s: all links of one device together, ONE direction, bytes/s.
            None where no source states it.
        latency_s: one message from end to end, seconds; None where unknown.
        links_per_device: how many links one device has; None where unknown.
        bandwidth_per_link_bytes_per_s: one link (or one lane), one direction, bytes/s.
        topology: how devices are wired, in words.
        wiring: what of it counts: "switch", "mesh" (each pair its own link), "ring" or "torus".
        torus_dimensions: of a torus; None for others.
        torus_plane_devices: up to so many devices the torus is one of two dimensions.
        torus_closed: full axes close to rings; False for a mesh of neighbours (lines).
        max_devices: the largest group that the link can join; None where it has no limit
            of its own or none is stated.
        bandwidth_origin: "datasheet", "secondary source", "measured", "estimated" or "what-if".
        latency_origin: the same for the latency; None where the latency is unknown.
        confidence: "solid", "mixed" or "shaky".
        sources: where the figures come from.
        notes: doubts, conflicts and measurements, one sentence each.
    """

    id: str
    name: str
    kind: str
    vendor: str
    bandwidth_bytes_per_s: float | None
    latency_s: float | None = None
    links_per_device: int | None = None
    bandwidth_per_link_bytes_per_s: float | None = None
    topology: str | None = None
    wiring: Wiring = "switch"
    torus_dimensions: int | None = None
    torus_plane_devices: int | None = None
    torus_closed: bool = True
    max_devices: int | None = None
    bandwidth_origin: str = "datasheet"
    latency_origin: str | None = None
    confidence: str = "mixed"
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_point_to_point(self) -> bool:
        """True where one pair of devices gets one link only, not the device's whole rate.

        So it is on a full mesh without a switch (AMD Infinity Fabric), on a torus (TPU ICI) or
        a ring; behind a switch every pair can use all links.
        """
        return self.wiring != "switch"

    def with_lanes(self, lanes: int) -> Interconnect:
        """Return this x16 host link with fewer lanes: the rate falls in proportion."""
        if self.bandwidth_bytes_per_s is None or lanes == 16:
            return self
        return replace(
            self,
            id=self.id.replace("x16", f"x{lanes}"),
            name=self.name.replace("x16", f"x{lanes}"),
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s * lanes / 16,
        )

    def with_bandwidth(self, bytes_per_s: float, origin: str = "datasheet") -> Interconnect:
        """Return this link at the rate that one device gives it (cut or doubled parts)."""
        if bytes_per_s == self.bandwidth_bytes_per_s:
            return self
        scale = bytes_per_s / self.bandwidth_bytes_per_s if self.bandwidth_bytes_per_s else None
        per_link = self.bandwidth_per_link_bytes_per_s
        return replace(
            self,
            bandwidth_bytes_per_s=bytes_per_s,
            bandwidth_per_link_bytes_per_s=per_link * scale if per_link and scale else per_link,
            bandwidth_origin=origin,
        )
