"""Questions with a name: options that `gpuscope plan` is given together, one TOML file each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text, extracted, sentences
from gpuscope.errors import UnknownNameError

__all__ = ["Preset", "preset", "presets"]

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Preset:
    """A question.

    Attributes:
        name: its file's.
        title: what it asks, and how to type it.
        values: options by the names of their parameters.
    """

    name: str
    title: Text
    values: Mapping[str, Any]


def presets() -> tuple[Preset, ...]:
    """All, in the order of their names."""
    found = []
    for path in sorted(_FOLDER.glob("*.toml")):
        content = tomllib.loads(path.read_text("utf-8"))
        found.append(Preset(path.stem, extracted(content["title"]), content["values"]))
    return tuple(found)


def preset(name: str) -> Preset:
    """One of them.

    Raises:
        UnknownNameError: there is none of that name; says what each asks.
    """
    known = {each.name: each for each in presets()}
    if name not in known:
        asked = sentences(*(Text("{name}: {title}.", name=each.name, title=each.title)
                            for each in known.values()))  # fmt: skip
        raise UnknownNameError(Text("preset"), name, known, asked)
    return known[name]
