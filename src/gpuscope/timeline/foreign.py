"""Files of other tools that are no recording gpuscope reads: told by name, with the one command."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpuscope.document.text import extracted
from gpuscope.errors import InputFileError

_HEAD_BYTES = 4096


@cache
def _kinds() -> tuple[Mapping[str, str], ...]:
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return tuple(tomllib.loads(text)["kind"])


def refuse_foreign(path: Path) -> None:
    """Raise where a file is known to be something else.

    Raises:
        InputFileError: says what it is, and what to type to get what can be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return  # whoever reads it says what is wrong
    squeezed = _squeezed(head.decode("utf-8", "replace").lstrip("\ufeff"))
    found = next((kind for kind in _kinds() if _is(kind, path, squeezed)), None)
    if found is not None:
        raise InputFileError(
            extracted(found["what"], path=path), "", extracted(found["fix"], path=path)
        )


def _is(kind: Mapping[str, str], path: Path, text: str) -> bool:
    if "ends" in kind:
        return path.name.lower().endswith(kind["ends"])
    return text.startswith(_squeezed(kind["begins"]))


def _squeezed(text: str) -> str:
    """Text without blanks, in lower case: files of one kind differ in both."""
    return "".join(text.split()).lower()
