"""Serving plans: what is tried, what is out by which number, what starts the choice."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuscope import children
from gpuscope.document.blocks import Table
from gpuscope.errors import DoesNotFitError, InvalidValueError, UnknownNameError
from gpuscope.hardware import parse_target
from gpuscope.hardware.grid import grid_factor
from gpuscope.planning.serving.explanation import explained_serving
from gpuscope.planning.serving.search import question_of_serving, search_serving
from gpuscope.planning.serving.steady import at_concurrency, at_rate, probability_below
from gpuscope.planning.serving.types import ServingPlan, ServingQuestion
from gpuscope.program.lengths import Lengths
from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.engine import engine
from gpuscope.serving.metrics import metrics
from gpuscope.serving.simulate import Deployment, deploy, serve_requests


def asked(**given: Any) -> ServingQuestion:
    usual: dict[str, Any] = {
        "on": "h100",
        "devices": "1..2",
        "rate": 4.0,
        "input": "1024",
        "answer": "128",
        "slo": "tpot<50ms",
        "simulate": 2,
    }
    return question_of_serving(given.pop("model", "llama-3.1-8b"), **{**usual, **given})


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return search_serving(asked())


@pytest.fixture(scope="module")
def found() -> Deployment:
    question = asked()
    return deploy("llama-3.1-8b", question.size, parse_target("h100"), engine("vllm"))


def test_the_cheapest_that_is_sure_is_taken(plan: ServingPlan) -> None:
    assert plan.best is not None
    assert plan.best.choice.cluster.n_devices == 1
    assert plan.best.feasible >= 0.8
    assert all(each.simulated for each in plan.judged)
    assert plan.candidates == len(plan.judged) + len(plan.rejected)
    assert "Take" in str(explained_serving(plan).summary[0])


def test_energy_and_co2_are_those_of_what_is_taken(plan: ServingPlan) -> None:
    """Between all boards at rest and all at their limit, over the tokens that were asked for."""
    best, asked_for = plan.best, plan.question
    assert best is not None
    assert best.energy_per_token_j is not None
    device, count = best.choice.cluster.device, best.choice.cluster.n_devices
    assert device.tdp_w is not None
    tokens_per_s = asked_for.rate_per_s * asked_for.answer
    assert 0.05 < best.energy_per_token_j * tokens_per_s / (count * device.tdp_w) < 1.0
    told = next(line for line in explained_serving(plan).summary if "CO2" in line)
    assert "471.1 g a kWh: world average" in told
    french = replace(plan, question=replace(asked_for, grid=grid_factor("fr")))
    assert any("France" in line for line in explained_serving(french).summary)


def test_what_is_out_answers_with_its_number(plan: ServingPlan) -> None:
    (table,) = explained_serving(plan, why="tp=2").sections[-1].blocks
    assert isinstance(table, Table)
    assert table.rows
    assert all("TPOT" in str(row[1]) or "requests" in str(row[1]) for row in table.rows)
    with pytest.raises(InvalidValueError, match="names no candidate"):
        explained_serving(plan, why="beauty=3")


def test_a_limit_that_none_keeps_names_the_nearest() -> None:
    plan = search_serving(asked(slo="tpot<1ms", devices=1, simulate=1))
    assert plan.best is None
    assert plan.nearest is not None
    assert "nearest" in str(explained_serving(plan).summary[0])


def test_too_many_requests_are_told_with_what_can_be_served() -> None:
    plan = search_serving(asked(rate=5000.0, devices=1))
    assert plan.judged == ()
    assert set(plan.counts) <= {"overloaded", "layout"}
    assert "5e+03 come" in str(plan.rejected[0].reason)


def test_what_does_not_fit_at_all_is_an_error() -> None:
    with pytest.raises(DoesNotFitError):
        search_serving(asked(model="llama-3.1-70b", devices=1))


def test_wrong_words_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="No load"):
        asked(rate=0.0)
    with pytest.raises(UnknownNameError):
        asked(engine="triton")
    with pytest.raises(InvalidValueError):
        asked(slo="tpot<20")


def test_a_looser_limit_or_fewer_requests_are_never_less_likely(plan: ServingPlan) -> None:
    loose = search_serving(asked(slo="tpot<100ms"))
    less = search_serving(asked(rate=2.0))
    for other in (loose, less):
        assert other.best is not None
        assert plan.best is not None
        assert (other.best.usd_per_million or 0) * (0.5 if other is less else 1) <= (
            plan.best.usd_per_million or 0
        ) * 1.001


def test_equal_input_gives_equal_output(plan: ServingPlan) -> None:
    assert search_serving(asked()) == plan


def test_the_quick_score_is_near_the_simulator(found: Deployment) -> None:
    # Answers of one length would end, and prompts come, all at once: no steady load.
    load = Load(
        input=Lengths("fixed", 1024), output=Lengths("uniform", 64, 192), count=256, concurrency=16
    )
    told = metrics(serve_requests(found, make_requests(load)))
    quick = at_concurrency(found, 1024, 128, 16)
    assert quick.tpot_s == pytest.approx(told.tpot.mean_s, rel=0.25)
    assert quick.tokens_per_s == pytest.approx(told.output_tokens_per_s, rel=0.25)


def test_more_requests_take_longer_until_it_cannot_keep_up(found: Deployment) -> None:
    steady = [at_rate(found, 1024, 128, rate) for rate in (0.5, 2.0, 8.0)]
    times = [each.tpot_s for each in steady if each is not None]
    assert times == sorted(times)
    assert at_rate(found, 1024, 128, 1e6) is None
    assert probability_below(0.02, 0.02) == pytest.approx(0.5)


def test_prices_of_iterations_are_kept_and_come_back_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSCOPE_CACHE", str(tmp_path))
    script = (
        "from gpuscope.capturing import keeping\n"
        "from gpuscope.planning.question import size_of\n"
        "from gpuscope.hardware import parse_target\n"
        "from gpuscope.serving import iteration\n"
        "from gpuscope.serving.quantization import quantization\n"
        "import sys\n"
        "if sys.argv[1] == 'again': iteration.Priced = None  # nothing is priced\n"
        "on = parse_target('2xh200')\n"
        "weights = quantization('bfloat16', on.device)\n"
        "with keeping():\n"
        "    print(iteration.iteration_cost(size_of('llama-3.2-1b'), weights, on, 2))\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-P", "-c", script, time],
            capture_output=True,
            check=True,
            text=True,
            env=children.environment(),
        ).stdout
        for time in ("first", "again")
    ]
    assert said[0] == said[1] != ""
    assert list(tmp_path.rglob("*.kept"))
