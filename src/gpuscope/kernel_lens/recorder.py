"""Collects what adapters see during a run, and closes each launch with a summary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.types import (
    Barrier,
    Framework,
    Kind,
    Launch,
    LineActivity,
    SourceFunction,
    Space,
)

if TYPE_CHECKING:
    from gpuscope.kernel_lens.requests import Active, Addresses, Counts

ALIGNMENT = 512
"""Where an array begins on a device: at a multiple of this, as PyTorch's and CUDA's allocators
hand memory out (at least 256 bytes)."""

DEFAULT_LIMIT = 2_000_000


class LimitReached(BaseException):
    """The run saw as much as it may; not an error, and not to be caught by the user's code."""


@dataclass(frozen=True, slots=True)
class Site:
    """One place that touches one array in one way."""

    file: str
    line: int
    space: Space
    kind: Kind
    array: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """An array's memory on this machine, and where it would lie on the device."""

    name: str
    start: int
    size_bytes: int
    base: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one site: `addresses` and `active` are [requests, lanes]."""

    blocks: Counts
    warps: Counts
    addresses: Addresses
    active: Active
    bytes_per_lane: int


@dataclass(slots=True)
class OpenLaunch:
    """A launch that is running."""

    kernel: str
    framework: Framework
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    requests: dict[Site, list[Requests]] = field(default_factory=dict)
    activity: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    functions: dict[tuple[str, str, int], SourceFunction] = field(default_factory=dict)
    allocations: list[Allocation] = field(default_factory=list)
    shared_bytes: int | None = None
    barriers: dict[tuple[str, int], Barrier] = field(default_factory=dict)
    races: dict[tuple[str, int, str, int, str], int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)

    def take_scalars(self, names: Iterable[str], values: Iterable[object]) -> None:
        """Keep the arguments that are plain numbers, by name."""
        for name, value in zip(names, values, strict=False):
            if isinstance(value, bool | int | float):
                self.scalars[name] = repr(value)


class Recorder:
    """Holds the launches of a run.

    Args:
        machine: whose rules apply.
        limit: lane accesses and line visits after which the run is stopped.
    """

    def __init__(self, machine: Machine, limit: int = DEFAULT_LIMIT) -> None:
        self.machine = machine
        self.limit = limit
        self.seen = 0
        self.launches: list[Launch] = []
        self.open: OpenLaunch | None = None

    def begin(
        self,
        kernel: str,
        framework: Framework,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
    ) -> OpenLaunch:
        """Open a launch."""
        self.open = OpenLaunch(kernel, framework, grid, block)
        return self.open

    def end(self, complete: bool = True) -> None:
        """Close the open launch with its summary."""
        from gpuscope.kernel_lens.summary import summarise

        if self.open is not None:
            self.launches.append(summarise(self.open, self.machine, complete))
            self.open = None

    def count(self, more: int) -> None:
        """Count what was seen.

        Raises:
            LimitReached: it is more than the limit allows.
        """
        self.seen += more
        if self.seen > self.limit:
            raise LimitReached

    def allocate(
        self, name: str, start: int, size_bytes: int, dtype: str, shape: Iterable[int]
    ) -> Allocation:
        """Return an array's place on the device; an array that is known keeps its own."""
        launch = self.launch
        for known in launch.allocations:
            if known.start == start and known.size_bytes == size_bytes:
                return known
        base = ALIGNMENT
        if launch.allocations:
            last = launch.allocations[-1]
            base = -(-(last.base + last.size_bytes) // ALIGNMENT) * ALIGNMENT
        found = Allocation(name, start, size_bytes, base, dtype, tuple(int(n) for n in shape))
        launch.allocations.append(found)
        return found

    @property
    def launch(self) -> OpenLaunch:
        """The open launch."""
        if self.open is None:
            raise RuntimeError("no launch is open")
        return self.open

    def add(self, site: Site, requests: Requests) -> None:
        """Add a site's requests to the open launch."""
        if len(requests.addresses):
            self.launch.requests.setdefault(site, []).append(requests)

    def add_activity(self, file: str, line: int, lanes: int, present: int) -> None:
        """Add one warp's visit of a line."""
        found = self.launch.activity.setdefault((file, line), [0, 0, 0, 0])
        found[0] += 1
        found[1] += lanes
        found[2] += present
        found[3] += lanes < present


def activity_of(launch: OpenLaunch) -> tuple[LineActivity, ...]:
    """The lines of a launch in order."""
    return tuple(
        LineActivity(file, line, *counts)
        for (file, line), counts in sorted(launch.activity.items())
    )


class DeviceMap:
    """Turns addresses of this machine into those of the device.

    Args:
        allocations: arrays that a kernel may touch.
    """

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self.allocations = sorted(allocations, key=lambda one: one.start)
        self.starts = np.array([one.start for one in self.allocations], dtype=np.int64)
        self.ends = np.array([one.start + one.size_bytes for one in self.allocations], np.int64)
        self.bases = np.array([one.base for one in self.allocations], dtype=np.int64)

    def owner(self, address: int) -> Allocation | None:
        """The array that holds an address."""
        index = bisect_right(self.starts, address) - 1
        if index < 0 or address >= self.ends[index]:
            return None
        return self.allocations[index]

    def outside(self, addresses: Addresses, size_bytes: int) -> Active:
        """Whether each address, or the bytes behind it, lies in no array."""
        if not len(self.starts):
            return np.ones(addresses.shape, dtype=bool)
        index = np.searchsorted(self.starts, addresses, side="right") - 1
        inside = (index >= 0) & (addresses + size_bytes <= self.ends[np.maximum(index, 0)])
        return np.asarray(~inside)

    def on_device(self, addresses: Addresses) -> Addresses:
        """The device's addresses; what lies in no array keeps its distance to the nearest."""
        if not len(self.starts):
            return addresses
        index = np.maximum(np.searchsorted(self.starts, addresses, side="right") - 1, 0)
        return np.asarray(addresses - self.starts[index] + self.bases[index])
