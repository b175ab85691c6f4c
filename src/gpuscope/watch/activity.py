"""What the device's units did between two samples: one file a vendor in `activities/`.

A sensor (`gpuscope.measurement.sensors`) says what a device is at one moment; a reader here says
what its units did since it was asked last: how many SMs worked, whether the tensor cores did, how
much crossed the memory bus and the links. Where a vendor's library does not tell, the reader gives
an empty `Activity`, and the reason in `notes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.types import SensorInfo
from gpuscope.registry import Registry
from gpuscope.watch.types import Activity


class ActivityReader(Protocol):
    """Something that tells a device's activity; one a device."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be read, and why; in English."""

    def read(self) -> Activity:
        """Return what the units did since the call before; empty at the first call.

        Never raises for what the device does not tell.
        """

    def close(self) -> None:
        """Let go of the vendor's library; reading afterwards gives nothing."""


Open = Callable[[SensorInfo], ActivityReader | None]

OPENERS = Registry[Open](Text("activity vendor"), "gpuscope.watch.activities")


class NoActivity:
    """For devices whose library does not tell."""

    def __init__(self, *notes: str) -> None:
        self._notes = notes

    @property
    def notes(self) -> tuple[str, ...]:
        """Why not."""
        return self._notes

    def read(self) -> Activity:
        """Return nothing."""
        return Activity()

    def close(self) -> None:
        """Nothing to let go of."""


def activity_vendor(name: str) -> Callable[[Open], Open]:
    """Register a function that opens the reader of a device, or returns None.

    It must not raise where the vendor's library or device is absent.

    Raises:
        ValueError: the name is registered already.
    """

    def register(opener: Open) -> Open:
        OPENERS.add(name, opener)
        return opener

    return register


def open_activity(info: SensorInfo) -> ActivityReader:
    """Open the reader of a device that a sensor describes.

    Returns:
        The vendor's reader; one that tells nothing, and says why, where there is none.
    """
    opener = OPENERS.find(info.vendor)
    reader = opener(info) if opener else None
    return reader or NoActivity(
        Text("No activity counters are known for '{vendor}' devices.", vendor=info.vendor)
    )


def rate(before: float | None, now: float | None, seconds: float) -> float | None:
    """Return the rate of a counter between two readings.

    Args:
        before, now: the counter; None where it was not told.
        seconds: between them.

    Returns:
        Units per second; None where a reading is missing, no time passed, or the counter went
        backwards (it wrapped or was reset): a wrong rate is worse than none.
    """
    if before is None or now is None or seconds <= 0 or now < before:
        return None
    return (now - before) / seconds
