"""MaxText's recipes: each belongs to a published row, and changes what is predicted of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _rows(source: str = "tpu-recipes"):
    from published.rows import read_rows

    return [row for row in read_rows() if source in row.source]


def test_every_recipe_is_of_a_row_and_every_expressed_row_has_one() -> None:
    from published.express import Expressed, express
    from published.maxtext import RECIPES

    rows = _rows() + _rows("MaxText high performance")
    assert set(RECIPES) <= {(row.model, row.hardware) for row in rows}
    for row in rows:
        if isinstance(express(row), Expressed):
            assert (row.model, row.hardware) in RECIPES


def test_a_recipe_sets_what_is_kept_and_what_overlaps() -> None:
    from published.express import Expressed, express

    made = {row.id: express(row) for row in _rows() if row.model == "Llama3.1-70B-MaxText"}
    assert len(made) == 4
    for found in made.values():
        assert isinstance(found, Expressed)
        plan = found.options.parallel
        assert plan is not None
        assert plan.software.kept == ("query", "key", "value")
        assert (plan.recompute, plan.reduce_dtype) == ("full", "bfloat16")
        assert plan.software.compile
        assert not plan.software.sums_beside


def test_int8_is_refused_and_its_rate_shows_that_it_is_int8() -> None:
    from published.express import NotExpressed, express

    (row,) = [r for r in _rows() if r.model == "GPT3-175B-MaxText" and "v5p" in r.hardware]
    made = express(row)
    assert isinstance(made, NotExpressed)
    assert "int8" in made.why
    # 6 FLOPs a parameter and token, 8 with all of the forward pass again: above the bf16 peak.
    again = 8 * 175e9 * row.value
    assert again > 459e12


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("MaxText 16B", 15.8e9), ("MaxText 32B", 31.5e9), ("MaxText 64B", 62.8e9)],
)
def test_a_scale_is_the_size_that_its_name_says(name: str, parameters: float) -> None:
    from published.maxtext import scaled_size

    size = scaled_size(name)
    assert size is not None
    assert size.parameters == pytest.approx(parameters, rel=0.01)
    assert scaled_size("MaxText 22B model") is None


def test_several_slices_share_parameters_inside_of_each() -> None:
    from published.express import Expressed, express

    made = {row.devices: express(row) for row in _rows("MaxText high") if "64B" in row.model}
    assert set(made) == {256, 512, 1024, 2048, 8192}
    for devices, found in made.items():
        assert isinstance(found, Expressed)
        plan = found.options.parallel
        assert plan is not None
        assert (plan.microbatch, plan.global_batch) == (2, 2 * devices)
        assert (plan.fsdp, plan.node) == (("full", None) if devices == 256 else ("hybrid", 256))
        assert found.tokens == 2 * devices * 2048


def test_rows_of_other_software_keep_theirs() -> None:
    from published.maxtext import why_not, with_recipe

    from gpuscope.program.models.parallel.options import Software

    row = replace(_rows()[0], model="another")
    assert why_not(row) == ""
    assert with_recipe(row, Software(clip=True)) == Software(clip=True)


@pytest.mark.parametrize("name", ["query", "key", "value", "out", "down", "attention"])
def test_names_of_what_is_kept_are_those_of_the_decoders(name: str) -> None:
    from published.maxtext import RECIPES

    assert any(name in recipe.kept for recipe in RECIPES.values())
