"""What the kernel logged of devices and of memory that ran out, as JSON.

Run as a process of its own (`python -m gpuscope.doctor.probes.kernel_log`). Only lines that say
something of devices are kept, so that a recording holds nothing else of the log. Answers
`{"source": "dmesg", "lines": [...], "read": n, "error": null}`; "source" is null where no log may
be read, with the reason in "error".
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

WANTED = re.compile(
    r"NVRM: Xid|SXid|fallen off the bus|NVRM:.*(?:RmInit|failed|error)"
    r"|AER:|PCIe Bus Error|pcieport.*(?:error|link down)"
    r"|amdgpu.*(?:GPU reset|ring .* timeout|ras|ECC|page fault|Fatal|hung)"
    r"|(?:i915|xe) .*(?:GPU HANG|hang|reset|Engine memory CAT error)"
    r"|Out of memory: Killed|oom-kill:|Memory cgroup out of memory"
    r"|Machine check|\bmce: .*(?:error|Hardware)|EDAC .*(?:CE|UE)",
    re.IGNORECASE,
)
"""Lines of the drivers of devices, of PCIe error reporting (AER), of memory, and of killed
processes."""

COMMANDS = (("dmesg",), ("journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic"))
FILES = ("/var/log/kern.log", "/var/log/messages")

_MOST_LINES = 400
_PREFIX = re.compile(r"^\w{3}\s+\d+ [\d:]{8} \S+ kernel: |^(\[\s*[\d.]+\]) \S+ kernel: ")


def wanted(lines: Iterable[str]) -> tuple[list[str], int]:
    """Return the newest lines of interest without the host's name, and how many were read."""
    found: list[str] = []
    read = 0
    for line in lines:
        read += 1
        if WANTED.search(line):
            found.append(_PREFIX.sub(lambda m: f"{m[1]} " if m[1] else "", line.strip())[:400])
    return found[-_MOST_LINES:], read


def facts(run: Callable[..., Any] = subprocess.run, files: Iterable[str] = FILES) -> dict[str, Any]:
    """Return what the first log that may be read says.

    Args:
        run: as `subprocess.run`.
        files: logs that are read where no command answers.
    """
    why: list[str] = []
    for words in COMMANDS:
        try:
            done = run(words, capture_output=True, text=True, errors="replace", timeout=4)
        except (OSError, subprocess.TimeoutExpired) as error:
            why.append(f"{words[0]}: {type(error).__name__}")
            continue
        if done.returncode == 0 and done.stdout.strip():
            lines, read = wanted(done.stdout.splitlines())
            return {"source": words[0], "lines": lines, "read": read, "error": None}
        why.append(f"{words[0]}: {(done.stderr or 'says nothing').strip()[:120]}")
    for path in files:
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                lines, read = wanted(file)
        except OSError as error:
            why.append(f"{path}: {error.strerror}")
            continue
        return {"source": path, "lines": lines, "read": read, "error": None}
    return {"source": None, "lines": [], "read": 0, "error": "; ".join(why)}


if __name__ == "__main__":
    print(json.dumps(facts()))
