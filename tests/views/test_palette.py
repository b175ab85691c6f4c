"""One colour a meaning: each name has one, told apart in its legend, seen on light and dark."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import get_args

import pytest

from gpuscope.analysis.breakdown import IDLE_PREFIX
from gpuscope.document.blocks import Role
from gpuscope.views.palette import COLOURS, class_role, kind_role, memory_role

ROOT = Path(__file__).parents[2]
PALETTE = json.loads(files("gpuscope.document").joinpath("palette.json").read_text("utf-8"))
SORTS = ("families", "classes", "phases", "memory", "host", "causes")
SAME = {
    ("kernel", "matmul"),
    ("communication", "collective"),
    ("memcpy", "transfer"),
    ("communication", "communication: transfer"),
}
"""Two names for the same thing."""
LIGHT, DARK = (1.0, 1.0, 1.0), (0x17 / 255, 0x1B / 255, 0x22 / 255)
"""The page's two grounds."""


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def luminance(parts: tuple[float, ...]) -> float:
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colour(sort: str, name: str) -> str:
    said = PALETTE[sort][name]
    return COLOURS.get(said, said)


def test_the_roles_are_those_of_the_palette() -> None:
    assert set(get_args(Role)) == set(COLOURS)
    for sort in SORTS:
        for name in PALETTE[sort]:
            assert re.fullmatch("#[0-9a-f]{6}", colour(sort, name)), (sort, name)


@pytest.mark.parametrize("sort", SORTS)
def test_names_that_share_a_legend_have_colours_of_their_own(sort) -> None:
    for a, b in combinations(PALETTE[sort], 2):
        if (a, b) in SAME or (b, a) in SAME:
            continue
        assert colour(sort, a) != colour(sort, b), (a, b)


def test_every_colour_stands_out_on_light_and_on_dark_ground() -> None:
    """1.4 to 1 at the least, and 2 where it stands for work: fields, not letters."""
    pale = {"idle", "waiting"}
    for role, found in COLOURS.items():
        for ground in (LIGHT, DARK):
            assert contrast(rgb(found), ground) > (1.4 if role in pale else 2.0), role


def test_what_it_does_not_know_is_other() -> None:
    assert class_role("new") == kind_role("new") == memory_role("new") == "other"
    assert class_role(f"{IDLE_PREFIX}host dispatching") == kind_role("idle") == "idle"


def test_the_page_has_no_second_palette() -> None:
    """Colours stand in the palette, or in rows for names that mean nothing (`BRANCHES`)."""
    rows = ("BRANCHES", "SPARE", "IDLE_SHADES", "ink = ")
    for path in sorted((ROOT / "web/src").rglob("*.ts")):
        for line in path.read_text("utf-8").splitlines():
            if not any(row in line for row in rows):
                assert not re.search(r"\"#[0-9a-f]{6}\"", line), (path.name, line.strip())
