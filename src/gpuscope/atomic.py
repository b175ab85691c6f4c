"""Files that are there in full or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpuscope.errors import InputFileError


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
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            umask = os.umask(0)  # mkstemp makes files that only the owner reads
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise InputFileError(
            f"Cannot write {target}.", str(error.strerror or error), "Choose another folder."
        ) from error


def _is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_atomically(path: str | Path, text: str | bytes) -> None:
    """Write UTF-8 text, or bytes, as a `whole_file`.

    Raises:
        InputFileError: as `whole_file`.
    """
    with whole_file(path) as file:
        file.write(text.encode("utf-8") if isinstance(text, str) else text)


def check_writable(path: str | Path) -> None:
    """Refuse a path that could not be written, before the work that would fill it.

    Raises:
        InputFileError: the folder is missing, the path is a folder, or it may not be written.
    """
    target = Path(path)
    if target.is_dir():
        raise InputFileError(f"{target} is a folder.", "", "Give the name of a file in it.")
    if _is_special(target):
        if not os.access(target, os.W_OK):
            raise InputFileError(
                f"Cannot write {target}.", "It may not be written to.", "Choose another name."
            )
        return
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise InputFileError(
            f"Cannot write {target}.", f"The folder {target.parent} does not exist.",
            f"Type: mkdir -p {target.parent}",
        )  # fmt: skip
    if not os.access(target.parent, os.W_OK):
        raise InputFileError(
            f"Cannot write {target}.", f"The folder {target.parent} may not be written to.",
            "Choose another folder.",
        )  # fmt: skip
