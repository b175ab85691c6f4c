"""Landlock: the kernel refuses this process, and those that it starts, what it does not need.

For processes without privileges, from Linux 5.13 on, also in most containers. Numbers are those of
`linux/landlock.h`; each version (ABI) knows more.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from gpuscope.program.guard import kernel
from gpuscope.program.guard.attributes import keep_attributes
from gpuscope.program.guard.places import DEVICES

__all__ = ["keep_files", "keep_signals"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1

_WRITE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_CONNECT = 1 << 1
_SOCKETS, _SIGNALS = 1, 2
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6


def keep_signals() -> bool:
    """Let signals reach no process but this one and those that it starts.

    Returns:
        Whether the kernel can (from Linux 6.12 on).
    """
    try:
        if _version() < _SCOPES_SINCE:
            return False
        _restrict(struct.pack("<QQQ", 0, 0, _SIGNALS), ())
    except OSError:
        return False
    return True


def keep_files(writable: Iterable[str], network: bool) -> bool:
    """Refuse writes outside of some folders, and connections and signals where the kernel can.

    Args:
        writable: folders and files; devices are writable anyway.
        network: leave connections alone.

    Returns:
        Whether the kernel can.
    """
    try:
        version = _version()
        files = _WRITE | _MAKE_AND_REMOVE
        files |= _REFER if version >= 2 else 0
        files |= _TRUNCATE if version >= 3 else 0
        rules = struct.pack("<Q", files)
        if version >= _NETWORK_SINCE:
            rules += struct.pack("<Q", 0 if network else _CONNECT)
        if version >= _SCOPES_SINCE:
            rules += struct.pack("<Q", _SIGNALS)
        _restrict(rules, [(path, files) for path in (*writable, *DEVICES)])
        keep_attributes()
    except OSError:
        return False
    return True


def _version() -> int:
    return kernel.system_call(_CREATE, None, 0, _VERSION)


def _restrict(rules: bytes, allowed: Iterable[tuple[str, int]]) -> None:
    given = ctypes.create_string_buffer(rules, len(rules))
    made = kernel.system_call(_CREATE, given, len(rules), 0)
    try:
        for path, access in allowed:
            try:
                folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            if not stat.S_ISDIR(os.fstat(folder).st_mode):
                access &= _WRITE | _TRUNCATE
            # struct landlock_path_beneath_attr is packed: 8 and 4 bytes.
            rule = ctypes.create_string_buffer(struct.pack("<Qi", access, folder), 12)
            try:
                kernel.system_call(_ADD, made, _BENEATH, rule, 0)
            finally:
                os.close(folder)
        kernel.no_new_privileges()
        kernel.system_call(_RESTRICT, made, 0)
    finally:
        os.close(made)
