"""A private copy of all files: writes and deletes succeed in it, and vanish with the process.

The process gets mounts of its own (`unshare(2)`; without privileges by way of a user namespace).
Over each folder lies an overlay whose changes go to memory (a `tmpfs` that only this process and
its children have). A folder under which something else is mounted cannot be overlaid by an
unprivileged process: its folders are, one by one, and what is left of it becomes read-only. Nothing
is undone at the end: the kernel drops it all with the last process.

In an unprivileged overlay, files whose owner or group is not the process' own cannot be changed
(`EOVERFLOW`), and folders that were there before cannot be renamed (`EXDEV`). New files in folders
of others would fail likewise; so the way to the folders that a script is likely to write to is made
beforehand, as folders of our own that the kernel merges with those below.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpuscope.program.guard import kernel
from gpuscope.program.guard.places import DEVICES, inside, real_path

__all__ = ["enter_overlay", "join_overlay"]

_MOST = 512
"""Overlays, at most: a folder with many others mounted in it needs one for each of its folders."""

_FOLDERS_OF_OTHERS = 1000
"""Folders of another owner or group that are looked for below the current one."""

_HERE = str(Path(__file__).resolve().parent)
"""Where the memory for changes is mounted: a folder that is certainly there, and is hidden by that
for a moment."""

_KEPT = {
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 0x200000,
}
"""Flags that a mount must keep when it becomes read-only."""

_UP, _GET_FLAGS, _SET_FLAGS = 0x1 | 0x40, 0x8913, 0x8914


@dataclass(frozen=True, slots=True)
class _Mount:
    point: str
    options: tuple[str, ...]

    @property
    def writable(self) -> bool:
        return "ro" not in self.options


def enter_overlay(real: Sequence[str] = (), network: bool = False) -> None:
    """Let this process, and those that it starts, write to a copy of all files from here on.

    To be called in a process of one thread.

    Args:
        real: folders and files that stay what they are.
        network: leave the network as it is; else there is none but this process' own.

    Raises:
        OSError: the kernel does not allow it; some of it may have been done.
    """
    where = os.getcwd()
    # Before: owners without a number of their own all look alike afterwards.
    ways = tuple(_folders_of_others(where)) if os.geteuid() else ()
    privileged = _unshare(0 if network else kernel.NEW_NETWORK)
    if not network:
        with suppress(OSError):
            _loop_back()
    kernel.mount("none", "/", "none", kernel.RECURSIVE | kernel.PRIVATE)
    mounts = _mounts()
    kept = [place for place in dict.fromkeys(map(real_path, real)) if os.path.exists(place)]
    opened = {place: os.open(place, os.O_PATH | os.O_CLOEXEC) for place in kept}
    kernel.mount("gpuscope", _HERE, "tmpfs", 0, "mode=700")
    # By number: from the moment that an overlay lies over a folder above it, its path is another's.
    memory = os.open(_HERE, os.O_PATH | os.O_CLOEXEC)
    with os.scandir("/") as entries:
        top = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    covered = _Covering(mounts, kept, privileged, ways, f"/proc/self/fd/{memory}").cover(top)
    os.close(memory)
    for place, descriptor in opened.items():
        kernel.mount(f"/proc/self/fd/{descriptor}", place, "none", kernel.BIND)
        os.close(descriptor)
    for mount in mounts.values():
        uncovered = mount.point not in covered and mount.point not in opened
        if mount.writable and uncovered and not _is_device(mount.point):
            _make_read_only(mount)
    with suppress(OSError):
        kernel.unmount(_HERE)
    os.chdir(where)


def join_overlay(process: int) -> None:
    """Write to the same copy as another process does, which is there already.

    To be called in a process of one thread.

    Raises:
        OSError: the kernel does not allow it, or that process is gone.
    """
    where = os.getcwd()
    kernel.join(process, "user", kernel.NEW_USERS)
    kernel.join(process, "mnt", kernel.NEW_MOUNTS)
    os.chdir(where)


def _unshare(others: int) -> bool:
    """Mounts of our own; whether that needed no user namespace."""
    try:
        kernel.unshare(kernel.NEW_MOUNTS | others)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(kernel.NEW_USERS | kernel.NEW_MOUNTS | others)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return False
    return True


def _folders_of_others(where: str) -> Iterator[str]:
    """Folders that the kernel could not copy: the way to the current one, and those in it."""
    own = os.geteuid(), os.getegid()
    yield from (where, os.path.expanduser("~"))
    waiting, left = [where], _FOLDERS_OF_OTHERS
    while waiting and left:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = [e for e in entries if e.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for entry in found[:left]:
            status = entry.stat(follow_symlinks=False)
            if (status.st_uid, status.st_gid) != own:
                yield entry.path
            waiting.insert(0, entry.path)
        left -= min(left, len(found))


def _loop_back() -> None:
    """Bring up the one device of a new network: this machine talking to itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        name = struct.pack("16sH14s", b"lo", 0, b"")
        found = fcntl.ioctl(asked, _GET_FLAGS, name)
        flags = struct.unpack("16sH14s", found)[1]
        fcntl.ioctl(asked, _SET_FLAGS, struct.pack("16sH14s", b"lo", flags | _UP, b""))


def _mounts() -> dict[str, _Mount]:
    """What is mounted where; of several at one place the last, which is what is seen."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[4])
        found[point] = _Mount(point, tuple(fields[5].split(",")))
    return found


def _is_device(path: str) -> bool:
    return any(inside(path, place) for place in DEVICES)


def _make_read_only(mount: _Mount) -> None:
    flags = kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY
    for option in mount.options:
        flags |= _KEPT.get(option, 0)
    try:
        kernel.mount("none", mount.point, "none", flags)
    except OSError:
        if os.access(mount.point, os.W_OK):
            raise


class _Covering:
    """Lays overlays over folders."""

    def __init__(
        self,
        mounts: dict[str, _Mount],
        kept: Sequence[str],
        privileged: bool,
        ways: Sequence[str],
        memory: str,
    ) -> None:
        self._mounts, self._kept, self._ways, self._memory = mounts, kept, ways, memory
        self._options = "" if privileged else ",userxattr"
        self._count = 0

    def cover(self, folders: Sequence[str]) -> set[str]:
        """Cover these; returns all that now lie under an overlay of their own."""
        return {done for folder in folders for done in self._cover(folder)}

    def _cover(self, folder: str) -> Iterator[str]:
        if _is_device(folder) or folder in self._kept:
            return
        if any(point != folder and inside(point, folder) for point in self._mounts):
            try:
                with os.scandir(folder) as entries:
                    within = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
            except OSError:
                return
            for each in sorted(within):
                yield from self._cover(each)
        elif self._overlay(folder):
            yield folder

    def _overlay(self, folder: str) -> bool:
        if self._count >= _MOST:
            raise OSError(0, "too many folders that others are mounted in", folder)
        changes, work = (os.path.join(self._memory, f"{kind}{self._count}") for kind in "cw")
        self._count += 1  # also where the kernel refuses this one: the next has folders of its own
        os.mkdir(changes)
        os.mkdir(work)
        status = os.stat(folder)
        with suppress(OSError):
            os.chown(changes, status.st_uid, status.st_gid)
        os.chmod(changes, status.st_mode & 0o7777)
        for way in self._ways:
            if inside(way, folder):
                _make_way(changes, folder, way)
        lower = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        try:
            options = f"lowerdir=/proc/self/fd/{lower},upperdir={changes},workdir={work}"
            kernel.mount("gpuscope", folder, "overlay", 0, options + self._options)
        except OSError:
            return False  # its mount becomes read-only
        finally:
            os.close(lower)
        return True


def _make_way(changes: str, folder: str, way: str) -> None:
    """Make the folders between an overlay's own and another below it."""
    for part in os.path.relpath(way, folder).split(os.sep):
        folder, changes = os.path.join(folder, part), os.path.join(changes, part)
        try:
            mode = os.lstat(folder).st_mode
            if not stat.S_ISDIR(mode):
                return
            os.mkdir(changes)
            os.chmod(changes, mode & 0o7777)
        except FileExistsError:
            continue
        except OSError:
            return
