"""Stop a script before it writes, deletes, starts or sends anything: it is run several times.

An audit hook (PEP 578, `sys.addaudithook`) is told before such an event happens. What does no harm
passes: temporary folders, caches, compilers that PyTorch starts, sockets of this machine.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from gpuscope.errors import WorkloadError
from gpuscope.program.user_code import is_library

__all__ = ["guard", "guarded"]

_PATHS = {
    "os.remove": "delete", "os.rename": "rename", "os.rmdir": "delete", "os.mkdir": "create",
    "os.truncate": "change", "os.link": "link", "os.symlink": "link", "shutil.rmtree": "delete",
    "shutil.move": "move",
}  # fmt: skip
_PROGRAMS = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile",
})  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MACHINERY = (
    "/torch/_inductor/", "/torch/_dynamo/", "/torch/_functorch/", "/torch/utils/cpp_extension",
    "/torch/utils/_triton", "/triton/", "/ctypes/", "/platform.py",
    "/multiprocessing/", "/torch/multiprocessing/", "/importlib/", "<frozen importlib",
    "/torch/__init__.py", "/torch/cuda/", "/pynvml", "/sympy/", "/huggingface_hub/",
)  # fmt: skip
"""Who may start programs or write what is no result: compilers, import, loaders of data."""

_OWN = str(Path(__file__).resolve().parents[2]) + os.sep
_HERE = str(Path(__file__).resolve())


def guard(script: str, refuse: Callable[[WorkloadError], None]) -> None:
    """Refuse, from here to the end of this process and of those forked from it.

    Args:
        script: to name in the error.
        refuse: told why; must end the process.
    """
    sys.addaudithook(_Refusal(script, refuse))
    _tell_of_saving()


@contextmanager
def guarded(script: str) -> Iterator[None]:
    """Refuse inside of the block alone, by raising where it happens.

    The hook that this needs stays with the process and does nothing outside of such blocks.

    Raises:
        WorkloadError: from the event that is refused.
    """
    import torch

    def refuse(error: WorkloadError) -> None:
        raise error

    if not _refusals:
        _refusals.append(None)
        sys.addaudithook(_refuse_now)
    before, original = _refusals[0], torch.save
    _refusals[0] = _Refusal(script, refuse)
    _tell_of_saving()
    try:
        yield
    finally:
        _refusals[0], torch.save = before, original


class _Refusal:
    """Decides of one script's events."""

    def __init__(self, script: str, refuse: Callable[[WorkloadError], None]) -> None:
        self._script, self._refuse = script, refuse
        self._harmless = _harmless_places()

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        doing = _doing(event, args, self._harmless)
        if doing is None:
            return
        site = _site(sys._getframe(1))  # this is an event itself: only where one is looked into
        if site is not None:
            self._refuse(_error(self._script, doing, site))


_refusals: list[_Refusal | None] = []
"""Who refuses now in `guarded`; empty until it was first used in this process."""


def _refuse_now(event: str, args: tuple[Any, ...]) -> None:
    refusal = _refusals[0]
    if refusal is not None:
        refusal(event, args)


def _tell_of_saving() -> None:
    """`torch.save` opens its file in C++, which raises no event: raise one for it."""
    import torch

    original = torch.save

    @functools.wraps(original)
    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(f, (str, os.PathLike)):
            sys.audit("open", os.fspath(f), "w", 0)
        original(obj, f, *args, **kwargs)

    torch.save = save


def _harmless_places() -> tuple[str, ...]:
    """Folders whose files are no result of anyone: temporary ones, caches, devices."""
    home = os.path.expanduser("~")
    named = [
        os.environ.get(v) for v in (
            "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "HF_HOME", "XDG_CACHE_HOME",
            "TORCH_HOME", "CUDA_CACHE_PATH",
        )
    ]  # fmt: skip
    places = [
        tempfile.gettempdir(), "/dev", "/proc", "/sys", f"{home}/.cache", f"{home}/.triton",
        f"{home}/.nv", *[place for place in named if place],
    ]  # fmt: skip
    return tuple({os.path.realpath(place) for place in places})


def _doing(event: str, args: tuple[Any, ...], harmless: tuple[str, ...]) -> str | None:
    """What an event would do to the world, in words; None where it does no harm."""
    if event == "open":
        if not _writes(args[1], args[2]):
            return None
        return _at(args[0], "write", harmless)
    if event in _PATHS:
        return _at(args[0], _PATHS[event], harmless)
    if event in _PROGRAMS:
        return f"start a program ({_shown(args[0])})"
    if event == "socket.connect":
        return _reaching(args[1])
    return None


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


def _at(path: object, verb: str, harmless: tuple[str, ...]) -> str | None:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return None  # a descriptor that is open already
    full = os.path.realpath(os.fsdecode(path))
    inside = any(full == place or full.startswith(place + os.sep) for place in harmless)
    if inside or full.endswith(".pyc") or "__pycache__" in full:
        return None
    return f"{verb} {full}"


def _reaching(address: object) -> str | None:
    if not isinstance(address, tuple) or not address:
        return None  # a socket of this machine's file system
    host = str(address[0])
    if host.startswith("127.") or host in ("::1", "localhost", ""):
        return None
    return f"talk to {host}"


def _shown(program: object) -> str:
    if isinstance(program, (str, bytes, os.PathLike)):
        return os.path.basename(os.fsdecode(program))
    return "?"


def _site(frame: FrameType | None) -> str | None:
    """The user's line that an event comes from; None where machinery does it by itself."""
    while frame is not None:
        path = frame.f_code.co_filename
        own = path.startswith(_OWN) and path != _HERE
        if own or any(part in path for part in _MACHINERY):
            return None
        if path != _HERE and not is_library(path):
            return f"line {frame.f_lineno} of {path}"
        frame = frame.f_back
    return None


def _error(script: str, doing: str, site: str) -> WorkloadError:
    return WorkloadError(
        f"{script} wants to {doing} ({site}).",
        "A script is run several times to compare variants, so it must leave nothing behind.",
        "Put the work into a function: file.py:build. Or allow it: --allow-writes",
    )
