"""Questions with a name: options of the plan command that were not typed."""

from __future__ import annotations

import inspect

import pytest
from made import scored_alone, tuned_alone
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.cli.groups import grouped
from gpuscope.cli.plan import plan_command
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning.presets import preset, presets
from gpuscope.planning.tuning.types import TuningPlan

QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)
TUNED = pytest.fixture(scope="module", autouse=True)(tuned_alone)


def _ran(*asked: str) -> str:
    ran = CliRunner().invoke(app, ["plan", *asked, "--lang", "en"], env={"COLUMNS": "300"})
    assert ran.exit_code in (0, 3), ran.output  # 3: nothing keeps it, and the nearest is told
    return " ".join(ran.output.replace("│", " ").split())


def test_each_sets_options_that_there_are() -> None:
    known = inspect.signature(grouped(plan_command)).parameters
    assert [each.name for each in presets()] == ["card", "readers", "week"]
    for each in presets():
        assert set(each.values) <= set(known)
        assert f"--preset {each.name}" in render(each.title, "en")
        assert render(each.title, "zh") != render(each.title, "en")
    with pytest.raises(UnknownNameError, match="month") as told:
        preset("month")
    assert "--preset week" in told.value.next_step


def test_a_week() -> None:
    said = _ran("any", "--preset", "week", "--on", "rtx-4090", "--devices", "8", "--simulate", "2")
    assert "is the largest built-in decoder that trains in 7 days" in said
    assert "in 1 days" in _ran(
        "any", "--preset", "week", "--days", "1", "--on", "rtx-4090", "--simulate", "2"
    )  # what was typed stands before


def test_a_card_that_is_too_small_says_what_would_do() -> None:
    said = _ran("llama-3.1-70b", "--preset", "card", "--on", "rtx-4090")
    assert "It does not fit" in said
    assert "This would:" in said


def test_a_week_in_python() -> None:
    found = gs.plan("any", preset="week", on="rtx-4090", devices=8, simulate=2)
    assert isinstance(found, tuple)
    done = [each for each in found if each.days is not None and each.days <= 7]
    assert len(done) == 1  # the first that is done ends it
    assert all(each.days is None or each.days > 7 for each in found[: found.index(done[0])])
    with pytest.raises(InvalidValueError, match="--days"):
        gs.plan("gpt2", days=3.0)


def test_a_card_in_python() -> None:
    found = gs.plan("llama-3.1-70b", preset="card", on="rtx-4090", global_batch=2)
    assert isinstance(found, TuningPlan)
    assert found.best is None
    assert found.question.global_batch == 2  # what is said stands before
    assert found.question.methods == ("lora",)


@pytest.mark.slow
def test_a_thousand_readers() -> None:
    said = _ran("qwen3-8b", "--preset", "readers", "--on", "h100", "--devices", "16,32",
                "--simulate", "1")  # fmt: skip
    assert "100 requests a second, 1000 tokens in, 500 out" in said
    assert "a million answer tokens" in said or "The nearest is" in said
