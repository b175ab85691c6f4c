"""The files of what is kept: where they are, how large they may get, and that they are whole.

Each is written under another name first and begins with a digest of the rest. One that is not
what its digest says, not ours, or unreadable is as good as absent. The longest unused go first.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import zstandard

from gpuscope.atomic import write_atomically
from gpuscope.errors import GpuscopeError
from gpuscope.kept import CACHE, is_off

__all__ = ["File", "clear", "folder", "listed", "read", "write"]

LIMIT_BYTES = 512 * 2**20
"""Bytes of all files together."""

LARGEST_BYTES = 64 * 2**20
"""Bytes of one file."""

_UNPACKED_BYTES = 2**28
"""Bytes of what one file holds, unpacked."""

_MAGIC = b"gpuscope kept 1\n"
_SUFFIX = ".kept"
_AS_IT_IS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
"""No link is followed, and no pipe waited for."""


@dataclass(frozen=True, slots=True)
class File:
    """A file: its path, its bytes, and when it was last used (seconds since 1970)."""

    path: Path
    nbytes: int
    used_s: float


def folder() -> Path | None:
    """Return where programs are kept, which may not exist yet; None where nothing is kept."""
    if is_off():
        return None
    given = os.environ.get(CACHE, "")
    if given:
        return Path(given).expanduser() / "programs"
    try:
        return _users() / "gpuscope" / "programs"
    except RuntimeError:  # nobody's home
        return None


def _users() -> Path:
    """The folder that this platform has for what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def read(name: str, *, used: bool = True) -> bytes | None:
    """Return what was written under a name, None where it is not whole.

    Args:
        name: as `write` was given it.
        used: it is used now, and stays longer.
    """
    place = folder()
    if place is None:
        return None
    path = place / (name + _SUFFIX)
    try:
        data = _whole(path) if _is_ours(place) else None
        if data is not None and used:
            os.utime(path)
    except OSError:
        return None
    if data is None:
        return None
    begin = len(_MAGIC) + hashlib.blake2b().digest_size
    if not data.startswith(_MAGIC) or _digest(name, data[begin:]) != data[len(_MAGIC) : begin]:
        return None
    try:
        if zstandard.frame_content_size(data[begin:]) > _UNPACKED_BYTES:
            return None
        return zstandard.decompress(data[begin:], max_output_size=_UNPACKED_BYTES)
    except zstandard.ZstdError:
        return None


def _whole(path: Path) -> bytes | None:
    """A file's bytes, None where it is none of ours: a link, a pipe, too large, somebody else's."""
    with open(os.open(path, _AS_IT_IS), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_BYTES or not _owned(about):
            return None
        return file.read(LARGEST_BYTES)


def write(name: str, data: bytes) -> bool:
    """Keep bytes under a name; whether that could be done. What was used longest ago may go."""
    place = folder()
    packed = zstandard.compress(data, 3)
    if place is None or len(packed) > LARGEST_BYTES or len(data) > _UNPACKED_BYTES:
        return False
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(place):
            return False
        path = place / (name + _SUFFIX)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):  # a link, or a pipe, would be written to
                path.unlink()
        write_atomically(path, _MAGIC + _digest(name, packed) + packed)
    except (OSError, GpuscopeError):  # a full disk, a folder that may not be written to
        return False
    _trim(LIMIT_BYTES)
    return True


def listed() -> list[File]:
    """Return every file, the one used last first."""
    return sorted(_files(), key=lambda kept: kept.used_s, reverse=True)


def clear() -> list[File]:
    """Remove every file, and return what is gone."""
    return [kept for kept in listed() if _removed(kept)]


def _trim(limit_bytes: int) -> None:
    total = 0
    for kept in listed():
        total += kept.nbytes
        if total > limit_bytes:
            _removed(kept)


def _removed(kept: File) -> bool:
    with suppress(OSError):
        kept.path.unlink()
        return True
    return False


def _files() -> Iterator[File]:
    place = folder()
    if place is None or not _is_ours(place):
        return
    with suppress(OSError), os.scandir(place) as found:
        for each in found:
            with suppress(OSError):
                if each.name.endswith(_SUFFIX) and each.is_file(follow_symlinks=False):
                    about = each.stat(follow_symlinks=False)
                    yield File(Path(each.path), about.st_size, about.st_mtime)


def _is_ours(place: Path) -> bool:
    """Whether a folder is this user's, and a link to it, too: into others' nothing is written."""
    try:
        return _owned(place.stat()) and _owned(place.lstat())
    except OSError:
        return False


def _owned(about: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or about.st_uid == os.geteuid()


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, key=name.encode()[:64]).digest()
