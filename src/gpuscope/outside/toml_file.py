"""TOML files that users write: settings, prices, plans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.outside.plain import file_bytes, toml_of

__all__ = ["no_value", "parse_toml", "read_toml", "shown", "table_of"]

_SHOWN = 80
"""Letters of a value that an error repeats."""


def read_toml(path: Path, again: Text) -> dict[str, Any]:
    """Return what a TOML file says; it may be anybody's.

    Args:
        path: the file.
        again: what to do where it is none.

    Raises:
        InputFileError: it cannot be read, is no TOML (not UTF-8 either), too large or too deep.
    """
    try:
        raw = file_bytes(path)
    except (OSError, ValueError) as error:  # a name that no file can have, and broken gzip, too
        why = f"{getattr(error, 'strerror', None) or error}."
        raise InputFileError(Text("{path} cannot be read.", path=path), why, again) from None
    return parse_toml(raw, path, again)


def parse_toml(raw: bytes | str, path: Path, again: Text) -> dict[str, Any]:
    """Return what TOML says; arguments and errors as `read_toml`."""
    try:
        return toml_of(raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw)
    except MisfitError as error:
        raise InputFileError(
            Text("{path} is no TOML file.", path=path),
            Text("{problem}.", problem=error.args[0]),
            again,
        ) from None


def table_of(content: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """Return a table of a TOML file, empty where it has none of that name.

    Raises:
        InputFileError: it is something else.
    """
    found = content.get(name, {})
    if isinstance(found, dict):
        return found
    raise InputFileError(
        Text("{path}: '{name}' is no table.", path=path, name=name),
        "",
        Text("Write for example: [{name}]", name=name),
    )


def no_value(name: str, value: object, example: str) -> InvalidValueError:
    """Return the refusal of a value.

    Args:
        name: where it stands: "limits.launches".
        value: as it was read.
        example: one that would do.
    """
    return InvalidValueError(
        Text("{name} = {value} cannot be.", name=name, value=shown(value)),
        "",
        Text("Write for example: {name} = {example}", name=name.split(".")[-1], example=example),
    )


def shown(value: object) -> str:
    """Return the beginning of a value, as an error repeats it."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
