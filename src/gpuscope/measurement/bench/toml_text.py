"""Plain values as TOML; None is left out, since TOML has no word for it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


def toml_text(document: Mapping[str, Any]) -> str:
    """Return a document of strings, numbers, lists and tables as TOML.

    Plain values come first, then tables, then arrays of tables; nested tables inside an array's
    items are written inline.

    Raises:
        TypeError: a value that TOML cannot hold.
    """
    plain, tables, arrays = [], [], []
    for key, value in document.items():
        if isinstance(value, Mapping):
            tables.append((key, value))
        elif _is_tables(value):
            arrays.append((key, value))
        elif value is not None:
            plain.append(f"{_key(key)} = {_value(value)}")
    parts = ["\n".join(plain)] if plain else []
    for key, table in tables:
        parts.append(f"[{_key(key)}]\n" + _lines(table))
    for key, rows in arrays:
        parts += [f"[[{_key(key)}]]\n" + _lines(row) for row in rows]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _is_tables(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(item, Mapping) for item in value)
    )


def _lines(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{_key(k)} = {_value(v)}" for k, v in table.items() if v is not None)


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _real(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    raise TypeError(f"TOML cannot hold a {type(value).__name__}.")


def _real(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if any(c in text for c in ".en") else f"{text}.0"


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
