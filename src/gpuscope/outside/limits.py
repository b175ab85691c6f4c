"""What reading one file may cost: every limit in one place.

(What running code without a device may cost stands in `program/capture/endless.py`.)

A small file can be made to cost gigabytes or hours: a gzip file of zeros, a pickle whose keys hold
each other, a view that calls itself. Readers of files from others stop at these limits and say so.
They leave room for real recordings many times over; the environment variable GPUSCOPE_LIMITS
multiplies all of them (GPUSCOPE_LIMITS=10 allows ten times as much) for files that are trusted.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from gpuscope.document.quantities import Bytes, Number, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError

VARIABLE = "GPUSCOPE_LIMITS"

UNPACKED_BYTES = 256 << 20
"""Bytes that any compressed file may unpack to."""

UNPACKED_RATIO = 150
"""Beyond these, bytes for each byte of the file: recordings pack to between a tenth and a fiftieth,
deflate reaches 1,032."""

EVENTS = 2_000_000
"""Events, and rows of tables, that any recording may hold."""

BYTES_AN_EVENT = 4
"""Beyond these, bytes of the file for each: a recorded event takes fifteen or more, packed."""

SECONDS = 8.0
"""Processor time that any file may take: one that is read apart, or queried."""

BYTES_A_SECOND = 500_000
"""Beyond these, bytes of the file for each second: readers take millions."""

MEMORY_BYTES = 768 << 20
"""Memory that reading any file apart may take."""

MEMORY_RATIO = 60
"""Beyond these, bytes for each byte of the file: a reference to a small object is two bytes in a
pickle, and a few tens in memory."""

MEMBERS = 1000
"""Parts, each compressed by itself, that any gzip file may be of."""

BYTES_A_MEMBER = 1024
"""Beyond these, bytes of the file for each."""

WINDOW_BYTES = 512 << 20
"""Bytes back that a zstd file may refer to: they are held in memory."""

DOCUMENT_BYTES = 1 << 30
"""Bytes that a JSON document or a TOML file may have, unpacked."""

PARTIES = 1024
"""Processes, or devices, with work of their own that one file may hold: more than any node has."""


def factor() -> float:
    """How many times the limits the user allows.

    Raises:
        InvalidValueError: GPUSCOPE_LIMITS is no number above zero.
    """
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return 1.0
    try:
        found = float(given)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise InvalidValueError(
            Text("{variable} is '{given}'.", variable=VARIABLE, given=given[:40]),
            Text("It multiplies the limits of what reading a file, or running code, may cost."),
            Text("Give a number above 0: {variable}=10", variable=VARIABLE),
        )
    return found


def unpacked_bytes(file_bytes: int) -> int:
    """Bytes that a compressed file of this size may unpack to."""
    return int(max(UNPACKED_BYTES, UNPACKED_RATIO * file_bytes) * factor())


def document_bytes(file_bytes: int) -> int:
    """Bytes that a compressed document may unpack to: it is read as a whole."""
    return min(unpacked_bytes(file_bytes), int(DOCUMENT_BYTES * factor()))


def members(file_bytes: int) -> int:
    """Parts of a gzip file of this size."""
    return int(max(MEMBERS, file_bytes / BYTES_A_MEMBER) * factor())


def events(file_bytes: int) -> int:
    """Events that a recording of this size may hold."""
    return int(max(EVENTS, file_bytes / BYTES_AN_EVENT) * factor())


def seconds(file_bytes: int) -> float:
    """Processor time that reading a file of this size apart may take."""
    return (SECONDS + file_bytes / BYTES_A_SECOND) * factor()


def memory_bytes(file_bytes: int) -> int:
    """Memory that reading a file of this size apart may take."""
    return int(max(MEMORY_BYTES, MEMORY_RATIO * file_bytes) * factor())


def parties() -> int:
    """Processes, or devices, of one recording."""
    return int(PARTIES * factor())


def unpacks_too_far(path: str | Path, limit: int) -> InputFileError:
    """The refusal of a file that unpacks to more than its limit in bytes."""
    return _refused(path, Text("It unpacks to more than {limit}.", limit=Bytes(limit)))


def holds_too_many(path: str | Path, what: Text, limit: int) -> InputFileError:
    """The refusal of a file that holds more of something ("events") than its limit."""
    return _refused(
        path, Text("It holds more than {limit} {what}.", limit=Number(limit, ","), what=what)
    )


def takes_too_long(path: str | Path, limit_s: float) -> InputFileError:
    """The refusal of a file whose reading takes longer than its limit in seconds."""
    return _refused(path, Text("Reading it takes more than {limit}.", limit=Seconds(limit_s)))


def takes_too_much(path: str | Path, limit: int) -> InputFileError:
    """The refusal of a file whose reading takes more memory than its limit in bytes."""
    return _refused(path, Text("Reading it takes more than {limit} of memory.", limit=Bytes(limit)))


def _refused(path: str | Path, why: Text) -> InputFileError:
    return InputFileError(
        Text("{path} costs more to read than a file of its size may.", path=path),
        why,
        Text(
            "If you trust it, allow ten times as much: {variable}={factor}",
            variable=VARIABLE,
            factor=Number(10 * factor(), "g"),
        ),
    )
