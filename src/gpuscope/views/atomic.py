"""Files that are there in full or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gpuscope.errors import InputFileError


def write_atomically(path: str | Path, text: str | bytes) -> None:
    """Write UTF-8 text, or bytes, to a file beside the target, then move it into place.

    Raises:
        InputFileError: the folder is missing or cannot be written to.
    """
    target = Path(path)
    check_writable(target)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
        # mkstemp makes files that only the owner reads; a report is an ordinary file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(path: str | Path) -> None:
    """Refuse a path that could not be written, before the work that would fill it.

    Raises:
        InputFileError: the folder is missing, the path is a folder, or it may not be written.
    """
    target = Path(path)
    if target.is_dir():
        raise InputFileError(f"{target} is a folder.", "", "Give the name of a file in it.")
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
