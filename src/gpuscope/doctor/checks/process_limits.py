"""Limits of this process: open files, processes.

Sources: Linux, getrlimit(2); PyTorch, "Multiprocessing best practices" (the file_descriptor
strategy opens a file for each shared tensor).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, joined, verbatim

_FEW_FILES, _FEW_FILES_OF_A_RANK, _FEW_PROCESSES = 1024, 4096, 2048
"""Most systems start with 1024 files, which is enough for one process with one device."""


@check("process_limits", "settings", Text("Limits of this process: open files, processes"))
def process_limits(machine: Machine) -> Iterable[Finding]:
    """Read /proc/self/limits; memory that may be locked is the check "rdma"."""
    text = machine.text("/proc/self/limits")
    if text is None:
        return
    files, processes = _soft(text, "Max open files"), _soft(text, "Max processes")
    values: dict[str, float | int | str | bool | None] = {
        "open_files": files,
        "processes": processes,
    }
    low = []
    several = len(nvidia_devices(machine)) > 1
    if files is not None and files < (_FEW_FILES_OF_A_RANK if several else _FEW_FILES):
        low.append((Text("{files} open files", files=files), "ulimit -n 65536"))
    if processes is not None and processes < _FEW_PROCESSES:
        low.append((Text("{processes} processes", processes=processes), "ulimit -u 65536"))
    if low:
        yield Finding(
            "process_limits",
            "note",
            Text("Limits of this process are low."),
            Text("{limits}.", limits=joined(limit for limit, _ in low)),
            Text(
                "Many input workers or ranks then fail with 'Too many open files' or cannot start."
            ),
            None,
            tuple(command for _, command in low),
            "/proc/self/limits",
            None,
            values,
        )
        return
    said = verbatim(f"{files:,}") if files is not None else Text("unlimited")
    yield Finding(
        "process_limits",
        "ok",
        Text("Limits of this process suffice."),
        Text("Open files: {said}.", said=said),
        known_by="/proc/self/limits",
        values=values,
    )


def _soft(text: str, name: str) -> int | None:
    """The soft limit; None if there is none or it is not told."""
    match = re.search(rf"^{name}\s+(\d+|unlimited)", text, re.M)
    return int(match[1]) if match and match[1].isdigit() else None
