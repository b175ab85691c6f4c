"""Protocol Buffers' wire format: the fields of a message, by number, without its definition.

Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError

_LARGEST = 2**62

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_LONGEST = 70
"""Bits that a number of 64 may take in the file, seven a byte."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number, and a whole number, or the bytes of anything else.

    Raises:
        MisfitError: it is cut off or damaged.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _number(message, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _number(message, at)
            yield key >> 3, number
            continue
        if kind == _SIZED:
            size, at = _number(message, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise _damaged(at)
        if size > end - at:
            raise _damaged(at)
        yield key >> 3, message[at : at + size]
        at += size


def within(value: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a value that should be a message; none of a number."""
    return fields(value) if isinstance(value, bytes) else iter(())


def words(value: int | bytes) -> str:
    """A value that should be text; "" for a number."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def whole(value: int | bytes) -> int:
    """A value that should be a count or a time, and fits; 0 for anything else."""
    return value if isinstance(value, int) and value < _LARGEST else 0


def real(value: int | bytes) -> float | None:
    """A value that should be a number of double precision; None for anything else."""
    if not isinstance(value, bytes) or len(value) != 8:
        return None
    return float(struct.unpack("<d", value)[0])


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A whole number, and where the next byte stands."""
    found = shift = 0
    try:
        while True:
            byte = message[at]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found, at
            shift += 7
            if shift > _LONGEST:
                raise _damaged(at)
    except IndexError:
        raise _damaged(at) from None


def _damaged(at: int) -> MisfitError:
    return MisfitError("", Text("cut off or damaged at byte {at}", at=at))
