"""Models on slices of devices: what can lie side by side, and which layout is taken."""

from __future__ import annotations

import pytest

from gpuscope.document.blocks import Table
from gpuscope.errors import DoesNotFitError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware.slices import profiles_of
from gpuscope.planning.serving.slice_layouts import side_by_side
from gpuscope.planning.serving.sliced import (
    SlicedPlan,
    is_sliced,
    question_of_slices,
    search_slices,
)
from gpuscope.planning.serving.sliced_explanation import explained_slices, refuse_of_whole_devices

H200 = profiles_of("nvidia-h200-sxm")
NAMES = [each.name for each in H200]


def fit(*names: str) -> bool:
    return side_by_side(H200, [names.count(each) for each in NAMES])


def answer(model: str, **given: object) -> SlicedPlan:
    usual = {
        "on": "h200:slices",
        "input": "500",
        "answer": "200",
        "slo": "tpot<40ms",
        "simulate": 1,
    }
    return search_slices(question_of_slices(model, **{**usual, **given}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "names",
    [
        ["1g.18gb"] * 7,
        ["3g.71gb", "3g.71gb"],
        ["4g.71gb", "3g.71gb"],
        ["4g.71gb", "2g.35gb", "1g.18gb"],
        ["2g.35gb", "2g.35gb", "2g.35gb", "1g.18gb"],
        ["1g.35gb"] * 4,
    ],
)
def test_layouts_of_nvidias_guide(names: list[str]) -> None:
    """NVIDIA, Multi-Instance GPU User Guide, "Supported MIG Profiles": what fits on one device."""
    assert fit(*names)


@pytest.mark.parametrize(
    "names",
    [["1g.18gb"] * 8, ["4g.71gb", "4g.71gb"], ["3g.71gb"] * 3, ["2g.35gb"] * 4, ["1g.35gb"] * 5],
)
def test_layouts_that_cannot_be(names: list[str]) -> None:
    assert not fit(*names)


def test_a_small_load_takes_the_least_slice_that_does() -> None:
    best = answer("llama-3.2-1b", rate=4.0).best
    assert best is not None
    assert best.devices == (("1g.18gb",),)
    assert best.share == pytest.approx(1 / 7)
    more = answer("llama-3.2-1b", rate=60.0).best
    assert more is not None
    assert more.share > best.share


def test_several_models_share_a_device_instead_of_one_each() -> None:
    plan = answer("llama-3.2-1b=10,llama-3.1-8b=3")
    assert plan.best is not None
    assert len(plan.best.devices) == 1
    assert plan.alone == 2
    assert {each.model for each in plan.best.placed} == {"llama-3.2-1b", "llama-3.1-8b"}
    for model, rate in (("llama-3.2-1b", 10), ("llama-3.1-8b", 3)):
        got = sum(each.rate_per_s for each in plan.best.placed if each.model == model)
        assert got == pytest.approx(rate)


def test_it_is_told_with_what_makes_the_slices() -> None:
    plan = answer("llama-3.2-1b=10,llama-3.1-8b=3")
    told = explained_slices(plan, "vllm")
    assert "On whole devices of their own they would take 2." in [str(t) for t in told.summary]
    table = told.sections[0].blocks[0]
    assert isinstance(table, Table)
    assert {row[1] for row in table.rows} == {"llama-3.2-1b", "llama-3.1-8b"}
    assert plan.best is not None
    (code,) = told.sections[-1].blocks
    assert f"-cgi {','.join(plan.best.devices[0])} -C" in str(code)


def test_what_cannot_be_served_says_so() -> None:
    with pytest.raises(DoesNotFitError, match="do not serve"):
        answer("llama-3.1-70b", rate=1.0)


def test_wrong_words_are_refused() -> None:
    assert is_sliced("h200:slices")
    assert not is_sliced("h200:1g.18gb")
    with pytest.raises(UnsupportedError, match="no slices"):
        question_of_slices("llama-3.2-1b", on="l40s:slices", rate=1.0)
    with pytest.raises(InvalidValueError, match="names no rate"):
        question_of_slices("llama-3.2-1b=4,qwen3-8b", on="h200:slices")
    with pytest.raises(InvalidValueError, match="twice"):
        question_of_slices("qwen3-8b=4,qwen3-8b=2", on="h200:slices")
    with pytest.raises(InvalidValueError, match="No load"):
        question_of_slices("qwen3-8b=nan", on="h200:slices")
    with pytest.raises(UnknownNameError):
        question_of_slices("qwen9-8b=1", on="h200:slices")
    with pytest.raises(InvalidValueError, match="do not go"):
        refuse_of_whole_devices("tp=2", False)
