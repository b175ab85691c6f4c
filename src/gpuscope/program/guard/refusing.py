"""Refuse what would leave something behind, where no private copy of the files can be made.

An audit hook (PEP 578, `sys.addaudithook`) is told before such an event happens. What went to the
scratch folder passes, and caches, and what machinery does by itself: compilers that PyTorch starts.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import RefusedError, WorkloadError
from gpuscope.program.user_code import is_library

if TYPE_CHECKING:
    from gpuscope.program.guard.shadow import Shadow

__all__ = ["begin", "refused"]

_PATHS: dict[str, tuple[str, int, int]] = {
    "os.remove": ("delete", 0, 1),
    "os.rmdir": ("delete", 0, 1),
    "os.mkdir": ("create", 0, 2),
    "os.truncate": ("change", 0, -1),
    "os.chmod": ("change", 0, 2),
    "os.chown": ("change", 0, 3),
    "os.lchmod": ("change", 0, -1),
    "os.chflags": ("change", 0, -1),
    "os.utime": ("change", 0, 3),
    "os.setxattr": ("change", 0, -1),
    "os.removexattr": ("change", 0, -1),
    "os.link": ("link", 1, 3),
    "os.symlink": ("link", 1, 2),
    "sqlite3.connect": ("write", 0, -1),
}
"""Events: what they do, and which of their arguments are the path and the folder it starts from."""

_VERBS: dict[str, Callable[[str], Text]] = {
    "write": lambda path: Text("write {path}", path=path),
    "delete": lambda path: Text("delete {path}", path=path),
    "rename": lambda path: Text("rename {path}", path=path),
    "create": lambda path: Text("create {path}", path=path),
    "change": lambda path: Text("change {path}", path=path),
    "link": lambda path: Text("link {path}", path=path),
}
_PROGRAMS = frozenset(
    {
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "pty.spawn",
    }
)
_FRESH_PYTHON, _BY_DESCRIPTOR = "gpuscope.spawn", "gpuscope.signal"
"""Events of ours, where Python has none."""

_CONNECTIONS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_MACHINERY = (
    "/torch/_inductor/",
    "/torch/_dynamo/",
    "/torch/_functorch/",
    "/torch/utils/cpp_extension",
    "/torch/utils/_triton",
    "/site-packages/triton/",
    "/dist-packages/triton/",
    "/ctypes/",
    "/platform.py",
    "/multiprocessing/",
    "/torch/__init__.py",
    "/torch/cuda/",
    "/pynvml",
    "/site-packages/sympy/",
    "/dist-packages/sympy/",
    "/huggingface_hub/",
)
"""Who may start programs or write what is no result: compilers and loaders of data. Each counts
in an installed package or in Python's own library alone, not in a folder of the user's."""

_OWN = str(Path(__file__).resolve().parents[2]) + os.sep
_GUARD = str(Path(__file__).resolve().parent) + os.sep


refused: list[RefusedError] = []
"""What was refused in this process, in order; a script that catches everything has gone on."""


def begin(
    script: str,
    refuse: Callable[[RefusedError], None] | None = None,
    *,
    writes: Shadow | None = None,
    programs: bool = False,
    connections: bool = True,
    signals: bool = True,
) -> None:
    """Refuse, from here to the end of this process and of those forked from it.

    Args:
        script: to name in errors.
        refuse: told of each refusal before it is raised.
        writes: the scratch folder; None where files need no guard.
        programs: also programs that would be started.
        connections: also other machines.
        signals: also signals to processes that are no children.
    """
    sys.addaudithook(_Hook(script, refuse, writes, programs, connections, signals))
    if programs:
        _tell_of_fresh_pythons()
    if signals:
        _tell_of_descriptors()


class _Hook:
    """Decides of one script's events."""

    def __init__(
        self,
        script: str,
        refuse: Callable[[RefusedError], None] | None,
        writes: Shadow | None,
        programs: bool,
        connections: bool,
        signals: bool,
    ) -> None:
        self._script, self._told = script, refuse
        self._writes, self._programs = writes, programs
        self._connections, self._signals = connections, signals
        self._process = os.getpid()

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        doing = self._doing(event, args)
        if doing is None:
            return
        # This is an event itself: only where one is looked into.
        site = _site(sys._getframe(1), () if event == _FRESH_PYTHON else _MACHINERY)
        if site is None:
            return
        error = RefusedError(_error(self._script, doing, site))
        refused.append(error)
        if self._told is not None:
            self._told(error)
        raise error

    def _doing(self, event: str, args: tuple[Any, ...]) -> Text | None:
        """What an event would do to the world, in words; None where it does no harm."""
        if self._writes is not None:
            found = self._writing(event, args)
            if found is not None:
                return found
        if self._programs and event in _PROGRAMS:
            return Text("start a program ({name})", name=_shown(args[0]))
        if self._connections and event in _CONNECTIONS:
            return _reaching(args[1])
        if self._programs and event == _FRESH_PYTHON:
            return Text("start a program ({name})", name=_shown(args[0]))
        if self._signals and event in ("os.kill", "os.killpg", _BY_DESCRIPTOR):
            return self._signalling(event, int(args[0]))
        return None

    def _writing(self, event: str, args: tuple[Any, ...]) -> Text | None:
        if event == "open":
            return self._at(args[0], "write", None) if _writes(args[1], args[2]) else None
        if event == "os.rename":
            return self._at(args[0], "rename", args[2]) or self._at(args[1], "rename", args[3])
        if event in _PATHS:
            verb, path, folder = _PATHS[event]
            return self._at(args[path], verb, args[folder] if folder >= 0 else None)
        return None

    def _at(self, path: object, verb: str, folder: object) -> Text | None:
        if not isinstance(path, (str, bytes, os.PathLike)) or path in (":memory:", ""):
            return None  # a descriptor that is open already
        text = os.fsdecode(path)
        shadow = self._writes
        assert shadow is not None
        if isinstance(folder, int) and folder >= 0:
            text = os.path.join(f"/proc/self/fd/{folder}", text)
        # Not the link itself that it may end in, but where it stands; what was told to the scratch
        # folder is a path in there already.
        parent = os.path.realpath(os.path.dirname(os.path.join(shadow.native_where, text)))
        full = os.path.join(parent, os.path.basename(text))
        if shadow.is_real(full) or (verb == "write" and os.path.isdir(full)):
            return None  # a folder cannot be opened for writing: someone opens a file in it
        return _VERBS[verb](full)

    def _signalling(self, event: str, target: int) -> Text | None:
        if event == "os.killpg" or target <= 0:
            return None if abs(target) in (0, os.getpgid(0)) else _signal(target)
        return None if _is_child(target, self._process) else _signal(target)


def _signal(target: int) -> Text:
    return Text("send a signal to the process {process}", process=str(target))


def _is_child(process: int, of: int) -> bool:
    """Whether a process is another one, or was started by it, directly or not."""
    while process > 1:
        if process == of:
            return True
        try:
            told = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        process = int(told.rpartition(")")[2].split()[1])
    return False


def _tell_of_fresh_pythons() -> None:
    """Children of `multiprocessing` that do not fork have no hook, and raise no event."""
    from multiprocessing import util

    original: Any = util.spawnv_passfds

    def spawnv_passfds(path: Any, args: Any, passfds: Any) -> Any:
        if not any("resource_tracker" in os.fsdecode(each) for each in args):
            sys.audit(_FRESH_PYTHON, "python")
        return original(path, args, passfds)

    util.spawnv_passfds = spawnv_passfds


def _tell_of_descriptors() -> None:
    """Signals to a process by its descriptor raise no event."""
    original: Any = getattr(signal, "pidfd_send_signal", None)
    if original is None:
        return

    def pidfd_send_signal(pidfd: int, *args: Any) -> Any:
        told = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
        sys.audit(_BY_DESCRIPTOR, int(told.partition("Pid:")[2].split()[0]))
        return original(pidfd, *args)

    signal.pidfd_send_signal = pidfd_send_signal


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


def _reaching(address: object) -> Text | None:
    if not isinstance(address, tuple) or not address:
        return None  # a socket of this machine's file system
    host = str(address[0])
    if host.startswith("127.") or host in ("::1", "localhost", ""):
        return None
    return Text("talk to {host}", host=host)


def _shown(program: object) -> str:
    if isinstance(program, (str, bytes, os.PathLike)):
        return os.path.basename(os.fsdecode(program))
    return "?"


def _site(frame: FrameType | None, machinery: tuple[str, ...]) -> Text | None:
    """The user's line that an event comes from; None where machinery does it by itself.

    Where no line of the user's is to be seen (a library's thread), it is the library's own.
    """
    innermost: FrameType | None = None
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_GUARD):
            frame = frame.f_back
            continue
        library = is_library(path)
        if path.startswith(_OWN) or "<frozen importlib" in path or "/importlib/" in path:
            return None
        if library and any(part in path for part in machinery):
            return None
        if not library:
            return _line(frame)
        innermost, frame = innermost or frame, frame.f_back
    return None if innermost is None else _line(innermost)


def _line(frame: FrameType) -> Text:
    return Text("line {line} of {file}", line=frame.f_lineno, file=frame.f_code.co_filename)


def _error(script: str, doing: Text, site: Text) -> WorkloadError:
    return WorkloadError(
        Text("{script} wants to {doing} ({site}).", script=script, doing=doing, site=site),
        Text(
            "Your code is run several times to compare variants, so it must leave nothing behind."
        ),
        Text("Leave it out while predicting, or allow it: --allow-writes"),
    )
