"""How busy the host's processors are, from the kernel's own table.

Linux: `/proc/stat` (the manual page proc(5)): clock ticks by state. Elsewhere the package `psutil`
answers where it is installed, else nothing does.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

PROC = Path("/proc")


class HostLoad:
    """The share of all processors' time in use between two questions."""

    def __init__(self, proc: Path = PROC) -> None:
        self._stat = proc / "stat"
        self._before: tuple[float, float] | None = None

    def read(self) -> float | None:
        """Return 0..1 since the question before.

        None at the first question, where it is not told, and where no time passed.
        """
        now = self._ticks()
        before, self._before = self._before, now
        if now is None or before is None:
            return None
        passed = now[1] - before[1]
        return min(max((now[0] - before[0]) / passed, 0.0), 1.0) if passed > 0 else None

    def _ticks(self) -> tuple[float, float] | None:
        """Time in use, and all time, of all processors together."""
        try:
            with self._stat.open("rb") as file:
                words = file.readline().split()
        except OSError:
            return _psutil_ticks()
        # user nice system idle iowait irq softirq steal; guest time is in user already.
        ticks = [float(word) for word in words[1:9]]
        if len(ticks) < 5:
            return None
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _psutil_ticks() -> tuple[float, float] | None:
    try:
        psutil: Any = importlib.import_module("psutil")
    except ImportError:
        return None
    times = psutil.cpu_times()
    total = float(sum(times))
    return total - float(times.idle), total
