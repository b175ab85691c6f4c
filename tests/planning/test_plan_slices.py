"""Models on slices of devices: what can lie side by side, and which layout is taken."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.document.blocks import Table
from gpuscope.errors import DoesNotFitError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware.shares import shares_of
from gpuscope.hardware.slices import profiles_of
from gpuscope.planning.serving.slice_layouts import side_by_side
from gpuscope.planning.serving.sliced import is_sliced, question_of_slices, search_slices
from gpuscope.planning.serving.sliced_explanation import explained_slices, refuse_of_whole_devices
from gpuscope.planning.serving.sliced_types import SlicedPlan

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


def test_shares_lie_beside_their_like_alone() -> None:
    from gpuscope.hardware import device
    from gpuscope.planning.serving.slice_layouts import laid
    from gpuscope.planning.serving.sliced_types import WHOLE

    profiles = (*shares_of(device("h200"), "mps"), WHOLE)
    names = [each.name for each in profiles]

    def counts(*taken: str) -> tuple[int, ...]:
        return tuple(taken.count(each) for each in names)

    for n in range(2, 8):
        assert side_by_side(profiles, counts(*[f"mps-{n}"] * n))
        assert not side_by_side(profiles, counts(*[f"mps-{n}"] * (n + 1)))
    assert not side_by_side(profiles, counts("mps-2", "mps-3"))
    assert laid(profiles, counts("mps-2", "mps-3"), 2) is not None
    assert laid(profiles, counts("whole", "mps-3", "mps-3", "mps-3"), 2) is not None
    assert sum(each.eighths * each.of for each in profiles[:-1]) == 8 * 6


@pytest.mark.parametrize("way", ["mps", "time"])
def test_models_share_a_device_by_turns_or_by_mps(way: str) -> None:
    """A share is less sure than a slice, and what it is asked for is served by all shares."""
    plan = gs.plan(
        "llama-3.2-1b=10,llama-3.1-8b=3", task="serve", on=f"h200:{way}", input="500",
        answer="200", slo="tpot<40ms", simulate=1,
    )  # fmt: skip
    assert isinstance(plan, SlicedPlan)
    assert plan.best is not None
    ((first, *rest),) = plan.best.devices
    assert first.startswith(way)
    assert set(rest) == {first}
    assert plan.best.share == pytest.approx((1 + len(rest)) / int(first.rpartition("-")[2]))
    line = plan.to("vllm")
    assert ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in line) == (way == "mps")
    assert "mig" not in line
    told = explained_slices(plan)
    assert any("twice as wide" in str(each) for each in told.assumptions)


def test_a_share_is_less_certain_than_as_large_a_device() -> None:
    from gpuscope.planning.serving.search import feasible
    from gpuscope.planning.serving.steady import Steady

    question = question_of_slices("llama-3.2-1b", on="h200:mps", rate=4.0).demands[0]
    steady = Steady(4.0, 0.02, 0.1, 100.0)
    sure = [feasible(question, steady, 1.5, 0.2, gs.device(on)) for on in ("h200", "h200:mps-2")]
    assert sure[0] > sure[1] > 0.5


def test_words_for_shares_that_cannot_be() -> None:
    with pytest.raises(UnsupportedError, match="not shared"):
        gs.plan("llama-3.2-1b", task="serve", on="mi300x:mps", rate=1.0)
    with pytest.raises(InvalidValueError, match="does not ask for prices"):
        gs.plan("llama-3.2-1b", task="serve", on="h200:slices", rate=1.0, prices="x")
    with pytest.raises(UnknownNameError, match="mps-2 to mps-48"):
        gs.device("h200:mps-60")
    with pytest.raises(UnknownNameError, match="--task serve"):
        gs.device("h200:mps")
    with pytest.raises(UnknownNameError, match="1g"):
        gs.device("h200:5g.90gb")
