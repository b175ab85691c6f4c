"""Grams of CO2 by place."""

from __future__ import annotations

import re

import pytest

from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware.grid import GRIDS, WORLD, grid_factor


def test_the_default_is_the_world_and_says_so() -> None:
    assert grid_factor(None) is WORLD
    assert WORLD.g_per_kwh == 471.1
    assert (WORLD.year, "Ember" in WORLD.source) == (2024, True)


def test_every_grid_has_its_year_source_and_names() -> None:
    for code, grid in GRIDS.items():
        assert code == grid.code
        assert code == "world" or re.fullmatch("[a-z]{2}", code)
        assert grid.year is not None
        assert 2023 <= grid.year <= 2025
        assert grid.source
        assert grid.place != render(grid.place, "zh")
        assert 10 < grid.g_per_kwh < 1000  # from nearly all hydro to nearly all coal


def test_by_name_or_number() -> None:
    assert grid_factor(" FR ").g_per_kwh == 56.0
    given = grid_factor("123.5")
    assert (given.g_per_kwh, given.year, given.source) == (123.5, None, "")
    assert grid_factor("0").g_per_kwh == 0


@pytest.mark.parametrize("text", ["atlantis", "", "12g"])
def test_unknown_places(text: str) -> None:
    with pytest.raises(UnknownNameError):
        grid_factor(text)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e9"])
def test_factors_that_cannot_be(text: str) -> None:
    with pytest.raises(InvalidValueError):
        grid_factor(text)
