"""Energy of the host's processors: RAPL counters in the Linux kernel's powercap files.

Files and units: Linux kernel, Documentation/power/powercap/powercap.rst (energy_uj in microjoules,
going back to 0 after max_energy_range_uj). Most systems let only the administrator read them; then
the energy is not available.
"""

from __future__ import annotations

import time
from pathlib import Path

from gpuscope.measurement.sensors.registry import sensor_vendor
from gpuscope.measurement.sensors.types import Reading, SensorInfo

POWERCAP = Path("/sys/class/powercap")


class PackageSensor:
    """All processor packages together; a counter that went round is carried on."""

    def __init__(self, zones: tuple[Path, ...]) -> None:
        self._zones = zones
        self._range_uj = [_number(zone / "max_energy_range_uj") for zone in zones]
        self._last_uj: list[int | None] = [None] * len(zones)
        self._sum_uj = [0] * len(zones)
        self._info = SensorInfo(
            "cpu_package", 0, " + ".join(_text(zone / "name") for zone in zones)
        )

    @property
    def info(self) -> SensorInfo:
        """What does not change."""
        return self._info

    def read(self, *, processes: bool = False) -> Reading:
        """Read the energy since the first reading, J.

        A counter that goes round more than once between two readings cannot be noticed: read at
        least every few minutes (a package's range is some 262 kJ).
        """
        known = [self._advance(at) for at in range(len(self._zones))]
        energy_j = sum(self._sum_uj) * 1e-6 if all(known) else None
        return Reading(time.perf_counter(), energy_j=energy_j)

    def close(self) -> None:
        """Nothing to let go of."""

    def _advance(self, at: int) -> bool:
        now = _number(self._zones[at] / "energy_uj")
        last = self._last_uj[at]
        if now is None:
            return False
        if last is not None:
            moved = now - last
            if moved < 0:
                limit = self._range_uj[at]
                if limit is None:
                    return False
                moved += limit
            self._sum_uj[at] += moved
        self._last_uj[at] = now
        return True


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@sensor_vendor("cpu_package", accelerator=False)
def open_cpu_package(index: int, powercap: Path = POWERCAP) -> PackageSensor | None:
    """Open the counters of all packages; None without any, or without permission."""
    zones = tuple(
        zone
        for zone in sorted(powercap.glob("intel-rapl:*"))
        if _text(zone / "name").startswith("package") and _number(zone / "energy_uj") is not None
    )
    return PackageSensor(zones) if zones and index == 0 else None
