"""Folders whose files are no result of anyone: caches that outlive a run, devices."""

from __future__ import annotations

import getpass
import os
import tempfile

__all__ = ["caches", "inside", "real_path", "temporary"]

_CACHES = (
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "HF_HOME",
    "XDG_CACHE_HOME",
    "TORCH_HOME",
    "CUDA_CACHE_PATH",
)

DEVICES = ("/dev", "/proc", "/sys")


def caches() -> list[str]:
    """Folders of compilers and loaders; what is in them stays."""
    home = os.path.expanduser("~")
    named = [os.environ.get(variable) for variable in _CACHES]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    compiled = os.path.join(temporary(), f"torchinductor_{user}")
    usual = [os.path.join(home, name) for name in (".cache", ".triton", ".nv")]
    # A socket by which processes share a device is reached in its own folder alone.
    shared = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    return sorted({real_path(each) for each in (*usual, compiled, shared, *named) if each})


def temporary() -> str:
    """The folder of temporary files."""
    return real_path(tempfile.gettempdir())


def real_path(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str:
    """A path without symbolic links, as text."""
    return os.path.realpath(os.fsdecode(path))


def inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; both real."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
