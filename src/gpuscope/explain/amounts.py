"""Amounts of data as people give them to an explanation, checked."""

from __future__ import annotations

import math

from gpuscope.errors import InvalidValueError
from gpuscope.hardware.units import parse_quantity


def amount_bytes(value: str | float, of: str, example: str) -> int:
    """Bytes from "64MB", "64MiB" or a plain number of bytes.

    Args:
        value: what the user gave.
        of: what is so large, for the error ("message", "copy").
        example: a command with a good one.

    Raises:
        InvalidValueError: not an amount, or less than one byte.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValueError(
            f"{value!r} is no amount of data.", "It is a number and a unit.", f"Type: {example}"
        )
    found = parse_quantity(value, "bytes") if isinstance(value, str) else float(value)
    if not math.isfinite(found) or found < 1:
        raise InvalidValueError(
            f"A {of} of {value} cannot be explained.", "It has at least one byte.",
            f"Type for example: {example}",
        )  # fmt: skip
    return round(found)
