"""A scratch folder in front of the files: what is written lies there, what is not is read below.

A path is looked up part by part, so that links made in the scratch folder count. A file that is to
be changed is copied first; what is removed is remembered as hidden.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from gpuscope.program.guard.places import DEVICES, inside, real_path

__all__ = ["Path", "Shadow"]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_LINKS = 40
"""Links that a path may lead through, as for Linux."""

# Kept before anyone replaces them.
_lstat, _mkdir, _readlink, _listdir = os.lstat, os.mkdir, os.readlink, os.listdir
_symlink, _getcwd, _stat = os.symlink, os.getcwd, os.stat
_os_open = os.open


class Shadow:
    """Where paths lead.

    Args:
        folder: the scratch folder, empty.
        real: folders and files that are written to as they are; those that are not there are no
            exception.
    """

    def __init__(self, folder: str, real: Iterable[str]) -> None:
        self.folder = real_path(folder)
        self.real = tuple(path for path in dict.fromkeys(map(real_path, real)) if _exists(path))
        self.where = _getcwd()
        """The current folder, as the script knows it."""
        self._files = os.path.join(self.folder, "files")
        _mkdir(self._files, 0o700)
        self._hidden: set[str] = set()

    def is_real(self, path: str) -> bool:
        """Whether a path is no concern of ours: devices, caches, the scratch folder itself."""
        return any(inside(path, place) for place in (self.folder, *self.real, *DEVICES))

    @property
    def native_where(self) -> str:
        """The current folder, as the system knows it."""
        return _getcwd()

    def known_as(self, path: Path, dir_fd: int | None = None, follow: bool = True) -> str:
        """A path without links and dots, as the script knows it.

        Args:
            path: absolute, or relative to the current folder.
            dir_fd: relative to this one.
            follow: also a link that it ends in.

        Raises:
            OSError: too many links.
        """
        text = os.fsdecode(path)
        base = self.where if dir_fd is None else _readlink(f"/proc/self/fd/{dir_fd}")
        if inside(base, self._files):
            base = base[len(self._files) :] or "/"
        waiting = [part for part in os.path.join(base, text).split(os.sep)[::-1] if part]
        at, links = "/", 0
        while waiting:
            part = waiting.pop()
            if part == ".":
                continue
            if part == "..":
                at = os.path.dirname(at)
                continue
            full = os.path.join(at, part)
            if (waiting or follow) and self._is_link(full):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), text)
                target = _readlink(self._seen(full))
                at = "/" if target.startswith(os.sep) else at
                waiting += [each for each in target.split(os.sep)[::-1] if each]
                continue
            at = full
        return at

    def reading(self, path: Path, dir_fd: int | None = None, follow: bool = True) -> str:
        """Where a path is to be read."""
        return self._seen(self.known_as(path, dir_fd, follow))

    def writing(
        self, path: Path, dir_fd: int | None = None, *, copied: bool = True, follow: bool = True
    ) -> str:
        """Where a path is to be written; its folder is there, if the script thinks so.

        Args:
            path, dir_fd, follow: as for `known_as`.
            copied: what is there now is needed.
        """
        known = self.known_as(path, dir_fd, follow)
        if self.is_real(known):
            return known
        there = self._files + known
        if _is_folder(self._seen(os.path.dirname(known))):
            self._make_way(os.path.dirname(known))
        if copied and not _exists(there) and self._below(known):
            self._copy(known, there)
        return there

    def exists(self, known: str) -> bool:
        """Whether the script finds something under a name (see `known_as`)."""
        return _exists(self._seen(known))

    def mode(self, known: str) -> int:
        """Its kind and permissions.

        Raises:
            OSError: there is nothing.
        """
        return _lstat(self._seen(known)).st_mode

    def is_below(self, known: str) -> bool:
        """Whether what is seen there is what was there before."""
        return not self.is_real(known) and not _exists(self._files + known)

    def hide(self, known: str) -> None:
        """Have nothing there any more, of what was there before."""
        if not self.is_real(known):
            self._hidden.add(known)

    def names(self, known: str) -> list[str]:
        """What a folder holds.

        Raises:
            OSError: it is none.
        """
        there = self._files + known
        if self.is_real(known) or not _is_folder(there):
            found = _listdir(self._seen(known))
        elif self._below(known):
            found = [*dict.fromkeys([*_listdir(known), *_listdir(there)])]
        else:
            found = _listdir(there)
        return [name for name in found if self.exists(os.path.join(known, name))]

    def _seen(self, known: str) -> str:
        if self.is_real(known):
            return known
        there = self._files + known
        return known if not _exists(there) and self._below(known) else there

    def _below(self, known: str) -> bool:
        """Whether it was there before, and still is."""
        at = known
        while True:
            if at in self._hidden:
                return False
            parent = os.path.dirname(at)
            if parent == at:
                return _exists(known)
            at = parent

    def _is_link(self, known: str) -> bool:
        try:
            return stat.S_ISLNK(_lstat(self._seen(known)).st_mode)
        except OSError:
            return False

    def _make_way(self, known: str) -> None:
        if known == "/" or _is_folder(self._files + known):
            return
        self._make_way(os.path.dirname(known))
        _mkdir(self._files + known, 0o700)

    def _copy(self, known: str, there: str) -> None:
        status = _lstat(known)
        if stat.S_ISLNK(status.st_mode):
            _symlink(_readlink(known), there)
        elif stat.S_ISDIR(status.st_mode):
            _mkdir(there, 0o700)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(known, there, status)


def _copy_file(known: str, there: str, status: os.stat_result) -> None:
    source = _os_open(known, os.O_RDONLY | os.O_CLOEXEC)
    try:
        made = _os_open(there, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while part := os.read(source, 1 << 20):
                while part:
                    part = part[os.write(made, part) :]
            with suppress(OSError):
                os.fchmod(made, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
        finally:
            os.close(made)
    finally:
        os.close(source)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(_stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _exists(path: str) -> bool:
    try:
        _lstat(path)
    except (OSError, ValueError):
        return False
    return True
