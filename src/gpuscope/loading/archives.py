"""A zip or tar file of a folder of recordings: unpacked for as long as they are read."""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside import limits

_PIECE = 1 << 20
_ENDINGS = (".json", ".gz", ".zst", ".sqlite", ".pickle", ".trace", ".pt")
"""Of what may be a recording; weights, pictures and logs beside them stay packed."""

_Part = tuple[str, IO[bytes]]


@contextmanager
def unpacked(paths: str | Path | Iterable[str | Path]) -> Iterator[list[str | Path]]:
    """Give the paths with every archive among them replaced by a folder of its recordings.

    A member becomes a plain file of a new name in a folder of its own that lasts as long as the
    context: links, devices and names that lead elsewhere cannot do harm.

    Args:
        paths: files, folders, globs.

    Raises:
        InputFileError: an archive is damaged, holds no recording, or unpacks beyond the limits.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        found: list[str | Path] = []
        for number, path in enumerate(listed):
            kind = _kind(Path(path))
            if not kind:
                found.append(path)
                continue
            own = Path(folder) / str(number) / Path(path).name
            own.mkdir(parents=True)
            _unpack(Path(path), kind, own)
            found.append(own)
        yield found


def _kind(path: Path) -> str:
    """ "zip", "tar", or "" for what is none: PyTorch's own zip files are not for reading here."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return ""
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if head[257:262] == b"ustar":
        return "tar"
    packed = path.name.lower().endswith((".tar.gz", ".tgz"))
    return "tar" if packed and head.startswith(b"\x1f\x8b") else ""


def _unpack(path: Path, kind: str, folder: Path) -> None:
    room = limits.unpacked_bytes(path.stat().st_size)
    most = limits.parties()
    count = 0
    try:
        for name, stream in _zip(path) if kind == "zip" else _tar(path):
            if count >= most:
                raise limits.holds_too_many(path, Text("files"), most)
            room -= _copy(stream, folder / f"{count:04}-{_plain(name)}", room, path)
            count += 1
    except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise _damaged(path, error) from None
    except (zipfile.BadZipFile, tarfile.TarError, zipfile.LargeZipFile) as error:
        raise _damaged(path, error) from None
    except Exception as error:
        # zlib, lzma and bz2 have errors of their own.
        if isinstance(error, InputFileError):
            raise
        raise _damaged(path, error) from None
    if not count:
        raise InputFileError(
            Text("{path} holds no recording.", path=path),
            Text("No file in it ends in {endings}.", endings=", ".join(_ENDINGS)),
            Text("Name an archive of a folder of traces."),
        )


def _damaged(path: Path, error: Exception) -> InputFileError:
    return InputFileError(
        Text("{path} is a damaged archive.", path=path),
        f"{error}."[:200],
        Text("Get it anew, or unpack it and name the folder."),
    )


def _zip(path: Path) -> Iterator[_Part]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and _wanted(member.filename):
                with archive.open(member) as stream:
                    yield member.filename, stream


def _tar(path: Path) -> Iterator[_Part]:
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            if member.isfile() and _wanted(member.name):
                stream = archive.extractfile(member)
                if stream is not None:
                    with stream:
                        yield member.name, stream


def _wanted(name: str) -> bool:
    last = PurePosixPath(name).name
    return last.lower().endswith(_ENDINGS) and not last.startswith(".") and "__MACOSX" not in name


def _plain(name: str) -> str:
    """The member's last two names in one, so that a rank in its folder's name still counts."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
    kept = "-".join(parts[-2:])
    return "".join(c if c.isalnum() or c in "-_.=" else "_" for c in kept)[-120:]


def _copy(stream: IO[bytes], target: Path, room: int, path: Path) -> int:
    size = 0
    with target.open("wb") as file:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if size > room:
                raise limits.unpacks_too_far(path, limits.unpacked_bytes(path.stat().st_size))
            file.write(piece)
    return size
