"""One copy between host and device: how long, at which rate, and what sets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuscope.api import Target, resolve_calibration, resolve_target
from gpuscope.cost.copy.transfer import link_copy, link_rate
from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.types import Kernel
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation.amounts import amount_bytes
from gpuscope.hardware import Device, calibration_for
from gpuscope.program.types import Op

EXAMPLE = "gpuscope explain transfer 1GB --on h200"

DIRECTIONS: Mapping[str, Text] = {"h2d": Text("host to device"), "d2h": Text("device to host")}

_COPY = Op(0, "aten::copy_")


@dataclass(frozen=True)
class TransferCase:
    """A copy that can be timed at any size, pinned or pageable.

    Attributes:
        size_bytes: what is copied.
        way: "h2d" or "d2h".
        device: the accelerator.
        constants: calibrated constants.
        devices: devices of the target that was named.
    """

    size_bytes: int
    way: str
    device: Device
    constants: Constants
    devices: int = 1

    def copy(self, pinned: bool, size_bytes: float | None = None) -> Kernel:
        """The copy as the cost model makes it."""
        amount = float(self.size_bytes if size_bytes is None else size_bytes)
        return link_copy(self._work, amount, self.way, pinned)

    def time_s(self, pinned: bool, size_bytes: float | None = None) -> float:
        """How long a copy occupies the copy engine."""
        return self.copy(pinned, size_bytes).duration_s

    def rate(self, pinned: bool, size_bytes: float | None = None) -> float:
        """Bytes/s that a copy reaches."""
        amount = self.size_bytes if size_bytes is None else size_bytes
        return amount / self.time_s(pinned, size_bytes)

    @property
    def _work(self) -> Work:
        return _work_on(self.device, self.constants)

    @property
    def link_bytes_per_s(self) -> float:
        """What the host link can carry one way."""
        return link_rate(self.device)

    @property
    def link_name(self) -> str:
        """The host link's name; what is taken where the catalogue has none."""
        link = self.device.host_link
        known = link is not None and link.bandwidth_bytes_per_s
        return link.name if link is not None and known else "PCIe 3.0 x16"

    @property
    def link_is_known(self) -> bool:
        """Whether the catalogue states the host link's rate."""
        link = self.device.host_link
        return link is not None and bool(link.bandwidth_bytes_per_s)

    @property
    def origin(self) -> str:
        """Where the times come from."""
        return "calibrated" if self.constants.calibrated else "estimated"

    def even_bytes(self) -> float:
        """The size at which a pinned copy waits as long as it moves: its latency times its rate."""
        large = 2.0**30
        moving_s = self.time_s(True, 2 * large) - self.time_s(True, large)
        latency_s = self.time_s(True, large) - moving_s
        return latency_s * large / moving_s

    def towards(self, way: str) -> TransferCase:
        """The same the other way."""
        return replace(self, way=way)

    def on(self, device: Device) -> TransferCase:
        """The same on another device."""
        return replace(self, device=device, constants=Constants(calibration_for(device)))


@lru_cache(maxsize=64)
def _work_on(device: Device, constants: Constants) -> Work:
    return Work(_COPY, device, constants)


def make_case(amount: str | float, on: Target, way: str) -> TransferCase:
    """The copy that a user asked for, checked.

    Raises:
        UnknownNameError: no such device or direction.
        InvalidValueError: no bytes, or more than the device holds.
        UnsupportedError: the device shares the host's memory.
    """
    if way not in DIRECTIONS:
        hint = Text("Type: {example}", example="--direction h2d")
        raise UnknownNameError(Text("direction"), way, DIRECTIONS, hint)
    cluster = resolve_target(on)
    device = cluster.device
    if device.pytorch_device == "mps":
        raise UnsupportedError(
            Text("{device} shares the host's memory.", device=device.name),
            Text("Nothing crosses a link."),
            Text("Choose a device with memory of its own. Type: {example}", example=EXAMPLE),
        )
    nbytes = amount_bytes(amount, "copy", EXAMPLE)
    if nbytes > device.memory_usable_bytes:
        raise InvalidValueError(
            Text("{nbytes} cannot be copied at once.", nbytes=Bytes(nbytes)),
            Text(
                "{device} has {memory_usable} for a program.",
                device=device.name,
                memory_usable=Bytes(device.memory_usable_bytes),
            ),
            Text(
                "Copy it in parts, or spread it over devices. Type for example: gpuscope explain "
                "transfer {memory_usable}GiB",
                memory_usable=device.memory_usable_bytes // 2**31,
            ),
        )
    constants = Constants(resolve_calibration(on) or calibration_for(device))
    return TransferCase(nbytes, way, device, constants, cluster.n_devices)
