"""How busy the host's processors are, and what a process is, from the kernel's own tables.

Linux: `/proc/stat` and `/proc/PID/stat` (the manual page proc(5)): clock ticks by state. Elsewhere
the package `psutil` answers where it is installed, else nothing does.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")


class HostLoad:
    """The share of all processors' time in use between two questions."""

    def __init__(self, proc: Path = PROC) -> None:
        self._stat = proc / "stat"
        self._before = self._ticks()

    def read(self) -> float | None:
        """Return 0..1 since the question before; None where it is not told or no time passed."""
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


@dataclass(frozen=True, slots=True)
class ProcessOnHost:
    """What the host knows of a process.

    Attributes:
        command: its command line; "" where it may not be seen.
        cpu_s: processor time that it has used, all threads.
    """

    command: str
    cpu_s: float


def process_on_host(pid: int, proc: Path = PROC) -> ProcessOnHost | None:
    """Return what the host knows of a process.

    Args:
        pid: its number, as this host or container counts.
        proc: the kernel's table.

    Returns:
        None where there is no such process here: it ended, belongs to another container, or the
        system is not Linux.
    """
    try:
        words = (proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        line = (proc / str(pid) / "cmdline").read_bytes()
        ticks = int(words[11]) + int(words[12])
    except (OSError, ValueError, IndexError):
        return None
    command = line.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return ProcessOnHost(command, ticks / os.sysconf("SC_CLK_TCK"))
