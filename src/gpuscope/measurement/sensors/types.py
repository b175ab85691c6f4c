"""What a sensor is and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Held(StrEnum):
    """Why a clock is held down, in NVML's words; other vendors' reasons stay words of their own."""

    APPLICATION_CLOCKS = "application clocks"
    POWER_CAP = "software power cap"
    SLOWDOWN = "hardware slowdown"
    SYNC_BOOST = "sync boost"
    SOFTWARE_THERMAL = "software thermal slowdown"
    HARDWARE_THERMAL = "hardware thermal slowdown"
    POWER_BRAKE = "hardware power brake"
    DISPLAY_CLOCKS = "display clocks"


HELD_BY_HEAT = frozenset({Held.SOFTWARE_THERMAL, Held.HARDWARE_THERMAL})
HELD_BY_POWER = frozenset({Held.POWER_CAP, Held.POWER_BRAKE})
HELD_BY_CHOICE = frozenset({Held.APPLICATION_CLOCKS, Held.DISPLAY_CLOCKS})
"""Somebody set the clock. `Held.SLOWDOWN` is heat or power, the device does not say which."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process that has work on the device.

    Attributes:
        pid: as the driver numbers it (inside a container this may not be ours).
        name: its program; "" if it may not be seen.
        memory_bytes: device memory it holds; None if not told.
    """

    pid: int
    name: str = ""
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a device said at one moment; None where it does not say.

    Attributes:
        time_s: when, on the clock of `time.perf_counter`.
        power_w: drawn now (drivers average over some 10 to 1000 ms).
        energy_j: since some moment in the past; only differences mean anything.
        sm_clock_hz, memory_clock_hz: now.
        temperature_c: of the chip.
        utilisation: share of the last sampling period with a kernel on the device, 0..1.
        memory_used_bytes, memory_total_bytes: of the whole device (or the MIG slice).
        throttle_reasons: why the clock is held down now, in the vendor's words; () if it is not.
        throttled_s: seconds since some moment in the past that the clock was held down, by reason
            ("power", "thermal"); only differences mean anything.
        power_limit_w: what the driver holds the device to.
        pcie_generation, pcie_width: of the link as it runs now.
        processes: who has work on it; None if it was not asked or not told.
    """

    time_s: float
    power_w: float | None = None
    energy_j: float | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    throttled_s: Mapping[str, float] | None = None
    power_limit_w: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    processes: tuple[ProcessUse, ...] | None = None


@dataclass(frozen=True, slots=True)
class SensorInfo:
    """What does not change while a device is watched.

    Attributes:
        vendor: "nvidia", "amd", "intel", "cpu_package", ...
        index: the device's number as PyTorch counts it.
        name: of the device.
        uuid: the driver's identifier; "" if it has none.
        driver: version of the driver; "" if unknown.
        slice: it is a part of a device (a MIG instance): what belongs to the whole device, such as
            power, is not read.
        notes: what cannot be read, and why.
    """

    vendor: str
    index: int
    name: str
    uuid: str = ""
    driver: str = ""
    slice: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)


class Sensor(Protocol):
    """Something that can be read; one a device."""

    @property
    def info(self) -> SensorInfo:
        """What does not change."""

    def read(self, *, processes: bool = False) -> Reading:
        """Read everything now; never raises for what the device does not tell.

        Args:
            processes: also who is on the device (slower).
        """

    def close(self) -> None:
        """Let go of the vendor's library; reading afterwards gives nothing."""
