"""The most that a plan may come to: read with units, kept by the choice, named where none can."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import asked, judged, scored_alone, tuned_alone

import gpuscope as gs
from gpuscope.document.text import render
from gpuscope.errors import DoesNotFitError, GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.planning.figures.registry import FIGURES, goals, quick_of
from gpuscope.planning.limits import OverLimitError, broken, excess, limits_of, nothing_within
from gpuscope.planning.search import search

QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)
TUNED = pytest.fixture(scope="module", autouse=True)(tuned_alone)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("time<7d", 604800.0),
        ("time < 90 min", 5400.0),
        ("cost<5000usd", 5000.0),
        ("cost<$12.5", 12.5),
        ("energy<2kWh", 7.2e6),
        ("power<6kW", 6000.0),
        ("memory<60GiB", 60 * 2**30),
        ("memory<60GB", 60e9),
    ],
)
def test_limits_have_units(written: str, value: float) -> None:
    (most,) = limits_of(written)
    assert most.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("cost<5000", "names no unit"),
        ("cost<5000eur", "eur"),
        ("power<5 horses", "horses"),
        ("time>7d", "is no limit"),
        ("time<0d", "is no limit"),
        ("memory<many GB", "is no limit"),
        ("time<7d,time<3d", "time<7d and time<3d limit the same"),
        ("", "is no limit"),
    ],
)
def test_wrong_limits(wrong: str, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said) as told:
        limits_of(wrong)
    for language in ("en", "zh"):
        assert render(told.value.what, language)
    assert render(told.value.what, "zh") != render(told.value.what, "en")


def test_unknown_figures() -> None:
    with pytest.raises(UnknownNameError, match="beauty"):
        limits_of("beauty<7d")
    assert goals() == ("time", "cost", "energy")


def test_figures_follow_from_a_step() -> None:
    """1.5 s of 8 devices at 8 J and 8 dollars a second: 100 steps by hand."""
    step = judged(1.5)
    found = {n: FIGURES.get(n).of(step, 100.0) for n in ("time", "cost", "energy", "power")}
    assert found == {"time": 150.0, "cost": 1200.0, "energy": 1200.0, "power": 8.0}
    (cluster,) = asked().clusters
    quick = quick_of(cluster, 3600.0)
    assert quick.usd == pytest.approx(cluster.price_usd_per_hour)
    assert quick.energy_j == pytest.approx(8 * 700.0 * 3600)


def test_the_limit_that_is_broken_most_is_named() -> None:
    limits = limits_of("time<100s,cost<400usd")
    assert broken(limits, judged(0.1), 100.0) is None
    told = broken(limits, judged(1.5), 100.0)
    assert told is not None
    assert "cost<400usd" in render(told, "en")
    assert excess(limits, judged(1.5), 100.0) == pytest.approx(3.0)
    assert excess(limits, judged(0.1), 100.0) == 0.0


def test_limits_that_contradict_each_other_are_named() -> None:
    """One is quick and dear, one slow and cheap; neither is both."""
    tried = [("quick", judged(1.0, "8xh200")), ("slow", judged(4.0, "h200"))]
    error = nothing_within("m", limits_of("time<2s,cost<5usd"), tried, None)
    said = render(error.why, "en")
    assert "time<2s and cost<5usd contradict each other" in said
    assert "$8.00" in said
    assert "4 s" in said
    alone = nothing_within("m", limits_of("time<0.5s,cost<5usd"), tried, None)
    assert "nearest is quick" in render(alone.why, "en")
    assert "contradict" not in render(alone.why, "en")


def test_what_is_not_known_keeps_no_limit() -> None:
    dark = judged(1.0)
    object.__setattr__(dark, "energy_j", None)
    told = broken(limits_of("power<5kW"), dark, None)
    assert told is not None
    assert "not known" in render(told, "en")
    assert broken(limits_of("power<5kW"), dark, None, known=True) is None


def test_a_price_is_needed() -> None:
    with pytest.raises(InvalidValueError, match="price"):
        asked(on="gaudi-3", limit="cost<5usd")


def test_the_choice_keeps_its_limits() -> None:
    """Cheaper on few devices, quicker on many: a limit of cost takes fewer."""
    free = search(asked(on="h100", devices="1..8", model="llama-3.2-1b"))
    cheap = search(asked(on="h100", devices="1..8", model="llama-3.2-1b", goal="cost"))
    assert free.best.usd is not None
    assert cheap.best.usd is not None
    most = (free.best.usd + cheap.best.usd) / 2
    bound = search(
        asked(on="h100", devices="1..8", model="llama-3.2-1b", limit=f"cost<{most:.9f}usd")
    )
    assert bound.best.usd is not None
    assert bound.best.usd <= most
    assert bound.best.step_s > free.best.step_s
    assert any(each.kind == "limit" for each in bound.rejected)


def test_power_is_held_against_the_simulation() -> None:
    """8 boards of 700 W draw more than 3 kW; 4 do not."""
    found = search(asked(on="h100", devices="4,8", model="llama-3.2-1b", limit="power<3kW"))
    assert found.best.candidate.devices == 4


def test_a_memory_limit_is_a_smaller_device() -> None:
    capped = asked(model="llama-3.1-8b", limit="memory<40GB").clusters[0].device
    assert capped.memory_usable_bytes == 40_000_000_000
    assert capped.name == asked().clusters[0].device.name
    found = search(asked(model="llama-3.1-8b", limit="memory<40GB"))
    assert found.best.peak_bytes < 40e9


@pytest.mark.parametrize("limit", ["time<1s", "cost<0.01usd", "power<1W"])
def test_nothing_within_names_the_nearest(limit: str) -> None:
    with pytest.raises(OverLimitError) as told:
        search(asked(model="llama-3.2-1b", tokens=1e9, limit=limit))
    assert isinstance(told.value, DoesNotFitError)
    assert limit.split("<")[0] in render(told.value.why, "en")
    assert "h200" in render(told.value.why, "en")
    assert render(told.value.why, "zh") != render(told.value.why, "en")


@settings(max_examples=4, deadline=None)
@given(st.sampled_from(["time", "cost"]), st.floats(1.0, 8.0), st.floats(1.0, 4.0))
def test_a_looser_limit_never_makes_the_best_worse(name: str, tight: float, more: float) -> None:
    def best(most: float) -> float:
        unit = "s" if name == "time" else "usd"
        try:
            found = search(
                asked(on="h100", devices="1..8", model="llama-3.2-1b", simulate=8,
                      limit=f"{name}<{most:.9f}{unit}")
            )  # fmt: skip
        except OverLimitError:
            return float("inf")
        return found.ties[0].step_s

    scale = 0.3 if name == "time" else 0.008
    assert best(scale * tight * more) <= best(scale * tight)


def test_fine_tuning_keeps_its_limits() -> None:
    on = {"on": "h100", "devices": "1,8", "global_batch": 8, "seq": 512, "tokens": 1e8}
    free = gs.plan("llama-3.1-8b", task="finetune", **on)
    assert free.best is not None
    assert free.best.candidate.devices == 8
    kept = gs.plan("llama-3.1-8b", task="finetune", **on, limit="power<2kW")
    assert kept.best is not None
    assert kept.best.candidate.devices == 1
    assert kept.counts["limit"] > 0
    with pytest.raises(OverLimitError, match="power<2kW"):
        gs.plan("llama-3.1-8b", task="finetune", **on, limit="time<1min,power<2kW")


def test_serving_keeps_a_limit_of_cost_and_names_what_contradicts() -> None:
    on = {"on": "h100", "devices": "1,8", "rate": 2, "answer": "64", "simulate": 2}
    free = gs.plan("llama-3.1-8b", task="serve", **on)
    assert free.best is not None
    price = free.best.usd_per_million
    assert price is not None
    kept = gs.plan("llama-3.1-8b", task="serve", **on, limit=f"cost<{price * 1.01:.6f}usd")
    assert kept.best == free.best
    assert kept.counts["limit"] > 0
    with pytest.raises(OverLimitError, match="nearest"):
        gs.plan("llama-3.1-8b", task="serve", **on, limit=f"cost<{price * 0.5:.6f}usd")
    with pytest.raises(InvalidValueError, match="belongs to trainings"):
        gs.plan("llama-3.1-8b", task="serve", **on, limit="time<7d")
    with pytest.raises(GpuscopeError, match="ttft<1s and ttft<2s"):
        gs.plan("llama-3.1-8b", task="serve", **on, slo="ttft<1s,ttft<2s")
