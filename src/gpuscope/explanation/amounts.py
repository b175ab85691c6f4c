"""Amounts of data as people give them to an explanation, checked."""

from __future__ import annotations

import math

from gpuscope.document.text import Text
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
            Text("{value} is no amount of data.", value=repr(value)),
            Text("It is a number and a unit."),
            Text("Type: {example}", example=example),
        )
    found = parse_quantity(value, "bytes") if isinstance(value, str) else float(value)
    if not math.isfinite(found) or found < 1:
        raise InvalidValueError(
            Text("A {of} of {value} cannot be explained.", of=of, value=str(value)),
            Text("It has at least one byte."),
            Text("Type for example: {example}", example=example),
        )
    return round(found)
