"""Changes of what stands beside a file's contents, which Landlock does not know: they do nothing.

A filter of system calls (`seccomp(2)`) answers that a mode, an owner, a time or an extended
attribute was set. Without it, a program that a script starts could set them on any file of its
user's.
"""

from __future__ import annotations

import ctypes
import platform
import struct

from gpuscope.program.guard import kernel

__all__ = ["keep_attributes"]

_NUMBERS = {
    "x86_64": (
        0xC000003E,
        # chmod fchmod chown fchown lchown utime setxattr lsetxattr fsetxattr removexattr
        # lremovexattr fremovexattr utimes fchownat futimesat fchmodat utimensat fchmodat2
        # setxattrat removexattrat
        (
            *range(90, 95),
            132,
            *range(188, 191),
            *range(197, 200),
            *(235, 260, 261, 268, 280, 452, 463, 466),
        ),
    ),
    "aarch64": (
        0xC00000B7,
        # setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr fchmod fchmodat
        # fchownat fchown utimensat fchmodat2 setxattrat removexattrat
        (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452, 463, 466),
    ),
}
"""By machine: its name to the kernel (`AUDIT_ARCH_...`), and numbers of calls."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
"""Of `linux/filter.h`: a word of the call's data, a jump where it equals, an answer."""

_ALLOW, _DONE = 0x7FFF0000, 0x00050000
"""Make the call; make none, and answer 0."""

_NUMBER_AT, _MACHINE_AT = 0, 4


def keep_attributes() -> None:
    """Have these calls do nothing, in this process and those that it starts.

    Raises:
        OSError: the kernel refuses; or it is another machine than those above.
    """
    known = _NUMBERS.get(platform.machine())
    if known is None:
        raise OSError(0, "no filter of calls for this machine")
    machine, numbers = known
    count = len(numbers)
    steps = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 0, count + 1, machine),
        (_LOAD, 0, 0, _NUMBER_AT),
        *((_EQUAL, count - at, 0, number) for at, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DONE),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    kernel.filter_calls(ctypes.create_string_buffer(code, len(code)), len(steps))
