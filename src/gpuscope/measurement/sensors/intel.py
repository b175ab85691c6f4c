"""Intel devices, read from the Linux kernel's hwmon files; no Python binding is needed.

Files and units: Linux kernel, Documentation/ABI/testing/sysfs-driver-intel-xe-hwmon and
sysfs-driver-intel-i915-hwmon (energy1_input in microjoules, widened from a 32-bit register by the
kernel; power1_max in microwatts, 0 if disabled; temperatures in thousandths of a degree). Tested on
made-up folders: it has not been run on a device yet.
"""

from __future__ import annotations

import time
from pathlib import Path

from gpuscope.measurement.sensors.registry import sensor_vendor
from gpuscope.measurement.sensors.types import Reading, SensorInfo

DRM = Path("/sys/class/drm")

_DRIVERS = frozenset({"xe", "i915"})

_CLOCKS = ("device/tile0/gt0/freq0/act_freq", "gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz")
"""Where the graphics clock stands (MHz), by driver and age."""


class IntelSensor:
    """One card."""

    def __init__(self, card: Path, hwmon: Path, index: int) -> None:
        self._card = card
        self._hwmon = hwmon
        device = (card / "device" / "device").read_text().strip() if _there(card) else ""
        self._info = SensorInfo("intel", index, f"Intel GPU {device}".strip())

    @property
    def info(self) -> SensorInfo:
        """What does not change."""
        return self._info

    def read(self, *, processes: bool = False) -> Reading:
        """Read everything now; see `Reading`."""
        energy = _number(self._hwmon / "energy1_input")
        at = time.perf_counter()
        limit = _number(self._hwmon / "power1_max") or None  # 0: no limit is set
        clock = next((c for name in _CLOCKS if (c := _number(self._card / name)) is not None), None)
        warmth = _first(self._hwmon, "temp2_input", "temp1_input")
        return Reading(
            time_s=at,
            energy_j=None if energy is None else energy * 1e-6,
            sm_clock_hz=None if clock is None else clock * 1e6,
            temperature_c=None if warmth is None else warmth * 1e-3,
            power_limit_w=None if limit is None else limit * 1e-6,
        )

    def close(self) -> None:
        """Nothing to let go of."""


def _there(card: Path) -> bool:
    return (card / "device" / "device").is_file()


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def _first(folder: Path, *names: str) -> float | None:
    return next((n for name in names if (n := _number(folder / name)) is not None), None)


def cards(drm: Path = DRM) -> list[tuple[Path, Path]]:
    """Return the cards of Intel's drivers that have sensors: (card, its hwmon folder)."""
    found = []
    for card in sorted(drm.glob("card[0-9]*")):
        if "-" in card.name:  # a connector: card0-HDMI-A-1
            continue
        for hwmon in sorted((card / "device" / "hwmon").glob("hwmon*")):
            try:
                driver = (hwmon / "name").read_text().strip()
            except OSError:
                continue
            if driver in _DRIVERS:
                found.append((card, hwmon))
                break
    return found


@sensor_vendor("intel")
def open_intel(index: int, drm: Path = DRM) -> IntelSensor | None:
    """Open an Intel device; None without one."""
    found = cards(drm)
    return IntelSensor(*found[index], index) if 0 <= index < len(found) else None
