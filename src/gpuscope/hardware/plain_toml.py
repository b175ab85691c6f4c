"""TOML of the plainest form, read five times as quickly as by the standard library.

The constants of a device are thousands of lines such as `value = 1.5` under `[attention.cold_s]`;
to read them by `tomllib` is a twentieth of a prediction whose program is kept.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["plain_toml"]

_LINE = re.compile(
    r"(?:\[([\w.-]+)\]"
    r'|([\w-]+) = (?:"([^"\\\x00-\x08\x0a-\x1f\x7f]*)"'
    r"|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?))"
    r"|) *(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?\n",
    re.ASCII,
)
"""A table, a key with a text without escapes or with a decimal number, or nothing; a comment."""


def plain_toml(text: str) -> dict[str, Any] | None:
    """Return what `tomllib.loads` makes of a text; None where only that one can tell.

    Args:
        text: lines that end with a line feed.
    """
    whole: dict[str, Any] = {}
    table, headers, end = whole, set[str](), 0
    for line in _LINE.finditer(text):
        if line.start() != end:
            return None
        end = line.end()
        header, key, words, number = line.groups()
        if header is not None:
            found = None if header in headers else _table(whole, header)
            if found is None:
                return None
            headers.add(header)
            table = found
        elif key is not None:
            if key in table:
                return None
            table[key] = words if number is None else _number(number)
    return whole if end == len(text) else None


def _table(whole: dict[str, Any], header: str) -> dict[str, Any] | None:
    """The table of a dotted name, made where it is new; None where a value stands in its place."""
    table = whole
    for part in header.split("."):
        if not part:
            return None
        table = table.setdefault(part, {})
        if type(table) is not dict:
            return None
    return table


def _number(digits: str) -> int | float:
    return int(digits) if digits.lstrip("-").isdigit() else float(digits)
