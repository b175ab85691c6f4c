"""The vendors, one file each: a file in this folder registers itself with `@sensor_vendor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.types import Sensor
from gpuscope.registry import Registry

Open = Callable[[int], Sensor | None]


@dataclass(frozen=True, slots=True)
class Vendor:
    """How one vendor's devices are opened; `accelerator` is False for host processors."""

    name: str
    open: Open
    accelerator: bool = True


VENDORS = Registry[Vendor](Text("sensor vendor"), "gpuscope.measurement.sensors")


def sensor_vendor(name: str, *, accelerator: bool = True) -> Callable[[Open], Open]:
    """Register a function that opens the device of that index, or returns None.

    It must not raise where the vendor's library or device is absent.

    Args:
        name: the vendor, one word.
        accelerator: False for what is not an accelerator; such a sensor is only opened by name.

    Raises:
        ValueError: the name is registered already.
    """

    def register(opener: Open) -> Open:
        VENDORS.add(name, Vendor(name, opener, accelerator))
        return opener

    return register


def vendors() -> tuple[Vendor, ...]:
    """Return every registered vendor by name; imports the files of this folder on first use."""
    return tuple(VENDORS)


def open_sensor(index: int = 0, vendor: str | None = None) -> Sensor | None:
    """Open the sensor of a device.

    Args:
        index: the device's number as PyTorch counts it in this process (`CUDA_VISIBLE_DEVICES`
            and its kind are followed).
        vendor: its vendor; None tries every vendor of accelerators.

    Returns:
        The sensor; None where no such device is found or its library is not installed.

    Raises:
        UnknownNameError: no such vendor.
    """
    if vendor is not None:
        VENDORS.get(vendor)
    for each in VENDORS:
        if each.name == vendor or (vendor is None and each.accelerator):
            sensor = each.open(index)
            if sensor is not None:
                return sensor
    return None
