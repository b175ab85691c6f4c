"""One colour a meaning, the same in terminal, pictures, notebook and page: `document/palette.json`.

The page's build takes the same file (web/src/core/colours.ts). There a role has a colour; a time
class, a kernel family and a kind of memory have a role.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import cast

from gpuscope.analysis.breakdown import IDLE_PREFIX
from gpuscope.document.blocks import Role

_PALETTE: dict[str, dict[str, str]] = json.loads(
    files("gpuscope.document").joinpath("palette.json").read_text("utf-8")
)

COLOURS = cast(dict[Role, str], _PALETTE["roles"])
"""Colour of each role, as "#rrggbb"."""


def class_role(label: str) -> Role:
    """Return the role of a time class; causes of idle time are all idle."""
    return "idle" if label.startswith(IDLE_PREFIX) else _role("classes", label)


def kind_role(kind: str) -> Role:
    """Return the role of a kernel family, or of "idle"."""
    return "idle" if kind == "idle" else _role("families", kind)


def memory_role(category: str) -> Role:
    """Return the role of a category of memory."""
    return _role("memory", category)


def _role(sort: str, name: str) -> Role:
    return cast(Role, _PALETTE[sort].get(name, "other"))
