"""`gs.plan` for each task, and what a task does not ask."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.errors import DoesNotFitError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.planning.tuning.types import TuningPlan

ASKED = {"on": "h100", "devices": 1}


def test_a_serving_plan_has_what_every_plan_has() -> None:
    plan = gs.plan(
        "llama-3.1-8b", task="serve", **ASKED, rate=2, answer="64", slo="tpot<50ms", simulate=2
    )
    assert plan.best in plan.ties
    assert plan.best in plan.front
    assert set(plan.ties) <= set(plan.judged)
    assert sum(plan.counts.values()) == len(plan.rejected)
    assert "vllm serve llama-3.1-8b" in plan.to("vllm")
    with pytest.raises(UnsupportedError, match="--for torchtitan does not go with --task serve"):
        plan.to("torchtitan")


def test_a_fine_tuning_plan_says_what_it_is_written_for() -> None:
    nothing = gs.plan("gpt2-xl", task="finetune", **ASKED, global_batch=1, seq=16, simulate=1)
    assert isinstance(nothing, TuningPlan)
    with pytest.raises(UnsupportedError, match="--for torchtitan does not go with --task finetune"):
        nothing.to("torchtitan")
    with pytest.raises(DoesNotFitError, match="nothing is written for peft"):
        nothing.to("peft")


def test_a_file_for_fine_tuning_that_is_none_is_refused_before_the_search() -> None:
    words = ["plan", "llama-3.1-8b", "--task", "finetune", "--for"]
    ran = CliRunner().invoke(app, [*words, "axolotl"])
    assert ran.exit_code != 0
    assert "Type one of: peft." in str(ran.exception) + ran.output


def test_what_a_task_does_not_ask_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="does not ask for rate") as told:
        gs.plan("gpt2", rate=6)
    assert "global_batch" in str(told.value.why)
    with pytest.raises(UnknownNameError, match="dream"):
        gs.plan("gpt2", task="dream")  # type: ignore[call-overload]
    with pytest.raises(InvalidValueError, match="No load"):
        gs.plan("gpt2", task="serve")


@pytest.mark.parametrize(
    "option", [("--goal", "cost"), ("--seq", "512"), ("--tokens", "1B"), ("--days", "7")]
)
def test_serving_refuses_what_only_trainings_ask(option: tuple[str, str]) -> None:
    ran = CliRunner().invoke(app, ["plan", "qwen3-8b", "--task", "serve", "--rate", "1", *option])
    assert ran.exit_code != 0
    assert option[0] in str(ran.exception) + ran.output
    assert "belongs to trainings" in str(ran.exception) + ran.output
