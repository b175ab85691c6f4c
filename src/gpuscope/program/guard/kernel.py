"""System calls that Python 3.11 has no function for."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

__all__ = [
    "filter_calls",
    "join",
    "mount",
    "no_new_privileges",
    "system_call",
    "unmount",
    "unshare",
]

NEW_MOUNTS, NEW_USERS, NEW_NETWORK = 0x20000, 0x10000000, 0x40000000
"""`CLONE_NEWNS`, `CLONE_NEWUSER`, `CLONE_NEWNET` of `linux/sched.h`."""

READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 0x20, 0x1000, 0x4000, 0x40000
"""`MS_...` of `linux/mount.h`."""

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
"""`PR_...` of `linux/prctl.h`, `SECCOMP_MODE_FILTER`."""


@cache
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def unshare(flags: int) -> None:
    """Leave the parent's namespaces (`unshare(2)`).

    Raises:
        OSError: the kernel refuses.
    """
    _checked(_library().unshare(flags), "unshare")


def join(process: int, kind: str, flags: int) -> None:
    """Go into a namespace of another process (`setns(2)`); nothing where it is this one's, too.

    Args:
        process: its number.
        kind: as `/proc/PID/ns` calls it.
        flags: the `NEW_...` of that kind.

    Raises:
        OSError: the kernel refuses, or the process is gone.
    """
    there, here = os.stat(f"/proc/{process}/ns/{kind}"), os.stat(f"/proc/self/ns/{kind}")
    if there.st_ino == here.st_ino:
        return
    opened = os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_library().setns(opened, flags), f"setns {kind}")
    finally:
        os.close(opened)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount something (`mount(2)`).

    Raises:
        OSError: the kernel refuses.
    """
    result = _library().mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode(),
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )
    _checked(result, target)


def unmount(target: str) -> None:
    """Take a mount away, at once or when nobody uses it any more (`MNT_DETACH`).

    Raises:
        OSError: the kernel refuses.
    """
    _checked(_library().umount2(os.fsencode(target), 2), target)


def system_call(number: int, *arguments: Any) -> int:
    """Make a system call by its number.

    Raises:
        OSError: the kernel refuses.
    """
    whole = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_library().syscall(ctypes.c_long(number), *whole), f"call {number}")


def no_new_privileges() -> None:
    """Give up set-user-id programs, which Landlock asks for (`prctl(2)`).

    Raises:
        OSError: the kernel refuses.
    """
    zero = ctypes.c_ulong(0)
    _checked(_library().prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero), "prctl")


class _Filter(ctypes.Structure):
    """`struct sock_fprog` of `linux/filter.h`."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def filter_calls(steps: Any, count: int) -> None:
    """Have the kernel ask a filter before each system call (`seccomp(2)`).

    Raises:
        OSError: the kernel refuses.
    """
    given = _Filter(count, ctypes.addressof(steps))
    _checked(_library().prctl(_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(given)), "prctl")
