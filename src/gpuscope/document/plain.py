"""Typed values as plain data, and plain data as strict JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from gpuscope.document.printable import escaped_json

Json = dict[str, Any]


def plain(value: object) -> Any:
    """Return dataclasses, mappings and sequences as dicts and lists; non-finite numbers as None."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value).__module__.partition(".")[0] == "numpy":  # an array or one of its numbers
        return plain(value.tolist())  # type: ignore[attr-defined]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def utf8(text: str) -> bytes:
    """Return text as files hold it.

    A file's name may hold bytes that are no UTF-8; Python keeps each as half a character, of which
    there is no UTF-8 either: "?" stands for it.
    """
    return text.encode("utf-8", "replace")


def whole(text: str) -> str:
    """Return text without halves of characters (see `utf8`), for what draws or prints it."""
    return utf8(text).decode("utf-8")


def dumps(document: object, indent: int | None = None) -> str:
    """Return strict JSON: no NaN, no Infinity, nothing that a terminal would obey.

    Args:
        document: plain values, as `plain` returns them.
        indent: blanks by which each level is set in; None for one line.
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        document, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
    )
    return escaped_json(text)
