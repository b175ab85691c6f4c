"""Files from outside as plain data: JSON and TOML, packed or not, with what is wrong and where.

What comes out has JSON's types; `gpuscope.document.typed` makes values of it. Every way in which
text can fail to be such data (not UTF-8, half a character, too deep, a number of a thousand digits)
is a `MisfitError`, and what costs too much is refused by `gpuscope.outside.limits`.
"""

from __future__ import annotations

import json
import os
import tomllib
import zlib
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any

import msgspec

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.outside import limits

_GZIP = b"\x1f\x8b"
_PIECE = 1 << 16
_TOML_BYTES = 8 << 20
_ENDLESS_BYTES = 64 << 20
_DEEPEST = 200
"""Lists and objects within each other that are read: whoever walks through them has a stack."""


def file_bytes(path: str | Path) -> bytes:
    """The bytes of a document, unpacked where it is a gzip file.

    Raises:
        OSError: it cannot be read.
        MisfitError: it is packed and cut off or damaged.
        InputFileError: it is, or unpacks to, more than the limit.
    """
    target = Path(path)
    with target.open("rb") as file:
        about = os.fstat(file.fileno())
        # A pipe or a device does not say how much it holds, and may never end.
        own = limits.DOCUMENT_BYTES if S_ISREG(about.st_mode) else _ENDLESS_BYTES
        most = int(own * limits.factor())
        if about.st_size > most:
            raise limits.unpacks_too_far(path, most)
        data = file.read(about.st_size + 1)
        while len(data) > about.st_size and (piece := file.read(max(_PIECE, len(data)))):
            data += piece
            if len(data) > most:
                raise limits.unpacks_too_far(path, most)
    return _unpacked(target, data) if data.startswith(_GZIP) else data


def json_of(raw: bytes | str) -> Any:
    """What strict JSON says.

    Raises:
        MisfitError: it is none, or nests too deep.
    """
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MisfitError("", Text("not strict JSON: {reason}", reason=str(error))) from error
    return _shallow(found)


def python_json_of(raw: bytes | str) -> Any:
    """What JSON says as Python's own writer makes it: with NaN and Infinity.

    Raises:
        MisfitError: it is none, nests too deep, or holds half a character.
    """
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8-sig")
        found = json.loads(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise MisfitError("", Text("not JSON: {reason}", reason=_first(error))) from error
    return _shallow(found)


def toml_of(raw: bytes) -> dict[str, Any]:
    """What TOML says.

    Raises:
        MisfitError: it is none, is too large, nests too deep, or has integers of more than 64 bits,
            which TOML has not.
    """
    if len(raw) > _TOML_BYTES:
        raise MisfitError("", Text("more than {most} of TOML", most=Bytes(_TOML_BYTES)))
    try:
        found = tomllib.loads(raw.decode("utf-8").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise MisfitError("", Text("not TOML: {reason}", reason=_first(error))) from error
    shallow: dict[str, Any] = _shallow(found)
    _check_integers(shallow)
    return shallow


def _check_integers(found: Any) -> None:
    """None is longer than 64 bits: Python takes minutes to write one of a million digits."""
    if isinstance(found, int) and found.bit_length() > 63:
        raise MisfitError("", Text("an integer of more than 64 bits"))
    if isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            _check_integers(each)


def _unpacked(path: Path, data: bytes) -> bytes:
    most, most_members = limits.document_bytes(len(data)), limits.members(len(data))
    parts: list[bytes] = []
    left, at, members = most, 0, 1
    member = zlib.decompressobj(31)
    try:
        while at < len(data):
            piece = data[at : at + _PIECE]
            parts.append(member.decompress(piece, left + 1))
            left -= len(parts[-1])
            at += len(piece) - len(member.unused_data)
            if left < 0:
                raise limits.unpacks_too_far(path, most)
            if member.eof:
                if not data.startswith(_GZIP, at):
                    break  # padding
                member, members = zlib.decompressobj(31), members + 1
            if members > most_members:
                raise limits.holds_too_many(path, Text("compressed parts"), most_members)
    except zlib.error as error:
        raise MisfitError("", Text("the compressed data are damaged")) from error
    if not member.eof:
        raise MisfitError("", Text("the compressed data end in the middle"))
    return b"".join(parts)


def _shallow(found: Any) -> Any:
    """The data as they are, if they can be walked through."""
    level, depth = [found], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise MisfitError("", Text("nested more than {deepest} times", deepest=_DEEPEST))
        inner: list[Any] = []
        for each in level:
            if isinstance(each, Mapping):
                inner += [value for value in each.values() if isinstance(value, dict | list)]
            elif isinstance(each, list):
                inner += [value for value in each if isinstance(value, dict | list)]
        level = inner
    return found


def _first(error: Exception) -> str:
    """An error's first line: a text that is no JSON must not be repeated whole."""
    said = str(error) or type(error).__name__
    return said.splitlines()[0][:200].encode("utf-8", "replace").decode()
