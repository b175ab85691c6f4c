"""How a machine is wired: processors, devices, network cards and the ways between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuscope.errors import UnknownNameError
from gpuscope.hardware import interconnect

Way = Literal["NV", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""What two devices share, in the words of `nvidia-smi topo -m`: NVLink, one PCIe bridge, several,
the host bridge, the memory node, or only the link between processors. XGMI is AMD's Infinity
Fabric, in the word of `rocm-smi --showtopo`."""

WAYS: tuple[Way, ...] = ("NV", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Nearest first."""

PCIE_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""Transfers a second and lane, in billions, by generation (PCI-SIG, PCI Express Base)."""


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A PCIe link as it runs now, and as it could.

    Attributes:
        generation, width: now; None if not told.
        max_generation, max_width: what device and slot allow together.
    """

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None

    @property
    def narrow(self) -> bool:
        """Fewer lanes than possible: lanes do not come back by themselves."""
        return None not in (self.width, self.max_width) and self.width < self.max_width  # type: ignore[operator]

    @property
    def slow(self) -> bool:
        """A lower generation than possible, which an idle device may choose to save power."""
        return (
            None not in (self.generation, self.max_generation)
            and self.generation < self.max_generation  # type: ignore[operator]
        )

    @property
    def bytes_per_s(self) -> float | None:
        """What it carries now, one direction."""
        return pcie_bytes_per_s(self.generation, self.width)


def pcie_bytes_per_s(generation: int | None, width: int | None) -> float | None:
    """Return the rate of a PCIe link, one direction, from the catalogue; None if it has none."""
    if not generation or not width:
        return None
    try:
        return interconnect(f"pcie-{generation}.0-x16").with_lanes(width).bandwidth_bytes_per_s
    except UnknownNameError:
        return None


def pcie_name(generation: int | None, width: int | None) -> str:
    """Return "PCIe 5.0 x16"."""
    return f"PCIe {generation or '?'}.0 x{width or '?'}"


@dataclass(frozen=True, slots=True)
class NvLinks:
    """The NVLink ports of a device.

    Attributes:
        active: ports that are up.
        ports: that exist.
        expected: that this device has by the catalogue; None if it is not in it.
        version: NVLink's; None if not told.
        switched: they end at NVSwitches.
        down: numbers of the ports that are not up.
        bytes_per_s: of all active ports, one direction; None if unknown.
    """

    active: int
    ports: int
    expected: int | None
    version: int | None
    switched: bool
    down: tuple[int, ...]
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device that one computes on.

    Attributes:
        index: as its vendor's library counts, or by bus where there is none.
        vendor: "nvidia", "amd", "intel".
        name: of the device.
        bus: its PCI address, as the kernel writes it.
        numa_node: the memory node it is near; None if unknown.
        path: PCI addresses from the host bridge down to it; () if they cannot be seen.
        pcie: its link.
        nvlinks: None where it has none.
        integrated: it shares the host's memory.
    """

    index: int
    vendor: str
    name: str
    bus: str
    numa_node: int | None
    path: tuple[str, ...]
    pcie: PcieLink
    nvlinks: NvLinks | None = None
    integrated: bool = False


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """A port to other machines.

    Attributes:
        name: RDMA name ("mlx5_0"), or of the network interface.
        kind: "infiniband", "roce", "efa", "ethernet".
        bus, numa_node, path: as of an `Accelerator`.
        bytes_per_s: of the port, one direction; None if unknown or down.
        up: the port is up; None if unknown.
        pcie: its link.
        virtual: it has no PCI device of its own (a container's interface).
    """

    name: str
    kind: str
    bus: str = ""
    numa_node: int | None = None
    path: tuple[str, ...] = ()
    bytes_per_s: float | None = None
    up: bool | None = None
    pcie: PcieLink = PcieLink()
    virtual: bool = False

    @property
    def rdma(self) -> bool:
        """Whether it writes into the memory of another machine by itself."""
        return self.kind != "ethernet"


@dataclass(frozen=True, slots=True)
class NumaNode:
    """Processors and the memory beside them.

    Attributes:
        index: the kernel's number.
        cpus: numbers of its processors.
        memory_bytes: None if not told.
    """

    index: int
    cpus: frozenset[int]
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accelerators (their indexes), the way between them, whether they reach each other's
    memory (None if not told), and why not."""

    a: int
    b: int
    way: Way | None
    peer: bool | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """All of it; `allowed_cpus` are the processors that this process may use (None: unknown)."""

    nodes: tuple[NumaNode, ...]
    accelerators: tuple[Accelerator, ...]
    cards: tuple[NetworkCard, ...]
    pairs: tuple[Pair, ...]
    distances: dict[tuple[int, str], Way | None]
    allowed_cpus: frozenset[int] | None = None

    def nearest(self, index: int) -> tuple[NetworkCard, Way] | None:
        """Return the nearest RDMA card of an accelerator and the way to it."""
        known = [
            (WAYS.index(way), card.name, card, way)
            for card in self.cards
            if card.rdma and (way := self.distances.get((index, card.name))) is not None
        ]
        return None if not known else (min(known)[2], min(known)[3])
