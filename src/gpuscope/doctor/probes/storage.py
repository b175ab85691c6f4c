"""Room and a short speed test of where data is read and written, as JSON.

Run as a process of its own (`python -m gpuscope.doctor.probes.storage`), in the user's working
folder. Each place gets one file of at most 64 MiB, written for at most a quarter of a second and
synchronised block by block, read back past the cache where the system allows that, and removed.
Places are named by what they are for ("working folder"), never by their path. A disk that hangs
ends with the probe's time.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

BLOCK_BYTES = 4 << 20
MOST_BYTES = 64 << 20
MOST_S = 0.25
LEAST_FREE_BYTES = 1 << 30
"""A place with less room than this is not written to."""


def places() -> Mapping[str, str]:
    """Return what is looked at: name -> path."""
    found = {"working folder": os.getcwd(), "temporary folder": tempfile.gettempdir()}
    if os.path.isdir("/dev/shm"):
        found["/dev/shm"] = "/dev/shm"
    return found


def look_at(path: str, most_s: float = MOST_S, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return room and speed of a folder.

    Args:
        path: the folder.
        most_s: seconds of writing.
        most_bytes: of the file.
    """
    try:
        room = os.statvfs(path)
    except OSError as error:
        return {"error": error.strerror}
    found: dict[str, Any] = {
        "error": None,
        "filesystem": filesystem(path),
        "total_bytes": room.f_blocks * room.f_frsize,
        "free_bytes": room.f_bavail * room.f_frsize,
        "free_files": room.f_favail if room.f_files else None,
        "written_bytes": None,
        "write_bytes_per_s": None,
        "read_bytes_per_s": None,
    }
    if found["free_bytes"] >= LEAST_FREE_BYTES:
        try:
            found |= _speed(path, most_s, most_bytes)
        except OSError as error:
            found["error"] = error.strerror
    return found


def _speed(path: str, most_s: float, most_bytes: int) -> dict[str, Any]:
    synchronise = getattr(os, "fdatasync", os.fsync)
    block = os.urandom(BLOCK_BYTES)  # compressing file systems would flatter zeros
    handle, name = tempfile.mkstemp(prefix=".gpuscope-doctor-", dir=path)
    try:
        os.unlink(name)  # gone at once, whatever happens to this process
        begin = time.perf_counter()
        written = 0
        while written < most_bytes and time.perf_counter() - begin < most_s:
            written += os.write(handle, block)
            synchronise(handle)  # each block: a slow disk would take seconds over all at the end
        wrote_s = time.perf_counter() - begin
        with contextlib.suppress(AttributeError, OSError):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.lseek(handle, 0, os.SEEK_SET)
        begin = time.perf_counter()
        read = 0
        while time.perf_counter() - begin < most_s and (part := os.read(handle, BLOCK_BYTES)):
            read += len(part)
        read_s = time.perf_counter() - begin
    finally:
        os.close(handle)
    return {
        "written_bytes": written,
        "write_bytes_per_s": written / wrote_s,
        "read_bytes_per_s": read / read_s if read else None,
    }


def filesystem(path: str) -> str | None:
    """Return the kind of file system a path lies on ("ext4", "overlay", "nfs4")."""
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    real = os.path.realpath(path)
    best, kind = -1, None
    for parts in lines:
        point = parts[1].replace("\\040", " ") if len(parts) > 2 else ""
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if point and inside and len(point) >= best:
            best, kind = len(point), parts[2]
    return kind


def facts() -> dict[str, Any]:
    """Return all places; one disk is looked at once, under its first name."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for name, path in places().items():
        try:
            disk = os.stat(path).st_dev
        except OSError:
            continue
        if disk not in seen:
            seen.add(disk)
            found[name] = look_at(path)
    return {"places": found}


if __name__ == "__main__":
    print(json.dumps(facts()))
