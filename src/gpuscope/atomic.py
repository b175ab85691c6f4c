"""Files and folders that are there in full or not at all.

What is being written has a name of its own beside its target, and is locked by whoever writes it:
one that nobody has locked was left by a process that was killed, and the next write there removes
it.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from gpuscope.document.plain import dumps, utf8
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError

_PREFIX, _SUFFIX = ".gpuscope-", ".tmp"

_FORGOTTEN_S = 86_400.0
"""Age of what another machine left: its locks may not be seen here."""


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that takes its name only once it is written without an error.

    It is written beside its target, and gets the permissions of an ordinary new file. A link stays
    one: the file that it points to is written. A device or a pipe (/dev/stdout, /dev/null) is
    written to as it is: it must never be replaced by a file.

    Raises:
        InputFileError: the folder is missing, the path is a folder, it may not be written, or
            writing failed (a full disk).
    """
    target = Path(path)
    check_writable(target)
    try:
        if _is_special(target):
            with target.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(target))
        _remove_left(target.parent)
        handle, temporary = _claimed(_new_file, target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                _to_disk(file)
                _as_ordinary(temporary, 0o666)
                # Still open, and so locked: nobody takes it for one that was left.
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise InputFileError(
            Text("Cannot write {target}.", target=target),
            str(error.strerror or error),
            Text("Choose another folder."),
        ) from error


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Give a folder to fill that takes its name only once it is filled without an error.

    Raises:
        OSError: it cannot be made, or there is something of that name.
    """
    target = Path(os.path.realpath(path))
    _remove_left(target.parent)
    handle, temporary = _claimed(_new_folder, target.parent)
    try:
        yield Path(temporary)
        _as_ordinary(temporary, 0o777)
        os.rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def _prefix() -> str:
    """How names of what this machine is writing begin."""
    machine = os.uname().nodename if hasattr(os, "uname") else ""
    return f"{_PREFIX}{zlib.crc32(os.fsencode(machine)):08x}-"


def _new_file(folder: Path) -> tuple[int, str]:
    return tempfile.mkstemp(_SUFFIX, _prefix(), folder)


def _new_folder(folder: Path) -> tuple[int, str]:
    name = tempfile.mkdtemp(_SUFFIX, _prefix(), folder)
    return os.open(name, os.O_RDONLY), name


def _claimed(new: Callable[[Path], tuple[int, str]], folder: Path) -> tuple[int, str]:
    """Make something to write into, and lock it."""
    while True:
        try:
            handle, name = new(folder)
        except FileNotFoundError:
            if folder.is_dir():
                continue  # another write removed it at once
            raise
        # Another write that has it now is about to remove it: see what became of it afterwards.
        _lock(handle, wait=True)
        if os.path.lexists(name):
            return handle, name
        os.close(handle)


def _lock(handle: int, *, wait: bool = False) -> bool:
    """Lock what is open, until it is closed or this process ends; whether that could be done."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):  # another has it, or the file system knows no locks
        return False
    return True


def _remove_left(folder: Path) -> None:
    """Remove what killed writes of this user have left in a folder."""
    try:
        with os.scandir(folder) as found:
            names = [
                each.path
                for each in found
                if each.name.startswith(_PREFIX) and each.name.endswith(_SUFFIX)
            ]
    except OSError:  # it may be written to, and not be listed
        return
    for name in names:
        with suppress(OSError):
            _remove_if_left(name)


def _remove_if_left(name: str) -> None:
    about = os.lstat(name)
    is_folder = stat.S_ISDIR(about.st_mode)
    if not (is_folder or stat.S_ISREG(about.st_mode)) or about.st_uid != os.geteuid():
        return
    here = os.path.basename(name).startswith(_prefix())
    if not here and time.time() - about.st_mtime < _FORGOTTEN_S:
        return
    # To write: NFS locks nothing that is only read.
    handle = os.open(name, (os.O_RDONLY if is_folder else os.O_RDWR) | os.O_NOFOLLOW)
    try:
        if _lock(handle):
            shutil.rmtree(name) if is_folder else os.unlink(name)
    finally:
        os.close(handle)


def _to_disk(file: BinaryIO) -> None:
    """Have all that was written on the disk before the file takes its name.

    A machine that loses power could else have the name, and an empty file.
    """
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):  # not known there
            raise


def _as_ordinary(path: str, mode: int) -> None:
    """Give what only its owner may use the permissions of what is made without a thought."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, mode & ~umask)


def _is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_atomically(path: str | Path, text: str | bytes) -> None:
    """Write UTF-8 text, or bytes, as a `whole_file`.

    Raises:
        InputFileError: as `whole_file`.
    """
    with whole_file(path) as file:
        file.write(utf8(text) if isinstance(text, str) else text)


def write_document(document: dict[str, Any], path: str | Path) -> None:
    """Write plain data as strict JSON, compressed where the name ends in ".gz".

    Raises:
        InputFileError: as `whole_file`.
    """
    text = dumps(document) + "\n"
    if str(path).endswith(".gz"):
        # No time of writing in it: equal documents make equal files.
        write_atomically(path, gzip.compress(utf8(text), 6, mtime=0))
    else:
        write_atomically(path, text)


def check_writable(path: str | Path) -> None:
    """Refuse a path that could not be written, before the work that would fill it.

    Raises:
        InputFileError: the folder is missing, the path is a folder, or it may not be written.
    """
    target = Path(path)
    if target.is_dir():
        raise InputFileError(
            Text("{target} is a folder.", target=target), "", Text("Give the name of a file in it.")
        )
    if _is_special(target):
        if not os.access(target, os.W_OK):
            raise InputFileError(
                Text("Cannot write {target}.", target=target),
                Text("It may not be written to."),
                Text("Choose another name."),
            )
        return
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise InputFileError(
            Text("Cannot write {target}.", target=target),
            Text("The folder {parent} does not exist.", parent=target.parent),
            Text("Type: mkdir -p {parent}", parent=target.parent),
        )
    if not os.access(target.parent, os.W_OK):
        raise InputFileError(
            Text("Cannot write {target}.", target=target),
            Text("The folder {parent} may not be written to.", parent=target.parent),
            Text("Choose another folder."),
        )
