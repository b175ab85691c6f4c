"""Parses the `args` of events: many at once into one type, or one as a dictionary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from gpuscope.document.plain import whole

T = TypeVar("T", bound=msgspec.Struct)


class Arguments:
    """Parses the `args` of many events into one type.

    Args:
        kind: a struct all of whose fields have defaults.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._one = msgspec.json.Decoder(kind)

    def decode(self, raws: Sequence[msgspec.Raw]) -> list[Any]:
        """One struct each; a value of a wrong type counts as missing."""
        try:
            found: list[Any] = self._many.decode(b"".join((b"[", b",".join(raws), b"]")))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return [self._lenient(raw) for raw in raws]
        return found

    def _lenient(self, raw: msgspec.Raw) -> Any:
        try:
            return self._one.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        record = plain_arguments(raw)
        found = self._kind()
        for field in msgspec.structs.fields(self._kind):
            if field.encode_name in record:
                try:
                    value = msgspec.convert(record[field.encode_name], field.type, strict=False)
                except msgspec.ValidationError:
                    continue
                setattr(found, field.name, value)
        return found


def mended(value: Any) -> Any:
    """Return parsed JSON whose texts can be written: "\\ud800" alone is half a character."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(key): mended(each) for key, each in value.items()}
    return [mended(each) for each in value] if isinstance(value, list) else value


def plain_arguments(raw: msgspec.Raw) -> dict[str, Any]:
    """The `args` of one event as a dictionary; empty where they are none."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            value = mended(json.loads(bytes(raw).decode("utf-8", "replace"), strict=False))
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
