"""The table of targets: every row has words in both languages, and what is missed says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "validation"), *sys.path])


def _trainings():  # type: ignore[no-untyped-def]
    from plan_choice import RESULTS, answers, runs
    from published.rows import read_rows

    found = runs(read_rows(), json.loads(RESULTS.read_text("utf-8")))
    return answers(found, lambda run: run.question)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_missed_says_why(lang: str) -> None:
    from plan_targets import targets, targets_section
    from plan_targets_text import TEXT

    made = _trainings()
    rows = targets(lang, made)
    assert [each.name for each in rows] == list(TEXT[lang]["rows"])
    for each in rows:
        assert each.met or TEXT[lang]["rows"][each.name][1], each.name
    assert targets_section(lang, made).count("\n| ") == len(rows) + 1


def test_a_target_by_hand() -> None:
    from plan_targets import _above, _below

    low = _below("serving mean", 0.214, 0.12, ".1%")
    assert (low.wanted, low.reached, low.met) == ("≤ 12.0 %", "21.4 %", False)
    high = _above("scored", 340_000, 100_000, ",.0f")
    assert (high.wanted, high.reached, high.met) == ("≥ 100,000", "340,000", True)


def test_a_command_is_timed_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import plan_speed

    work = [sys.executable, "-c", "sum(range(3_000_000))"]
    took = plan_speed.timed(work, str(tmp_path))
    assert took["ended"]
    assert took["processor_s"] > 0
    monkeypatch.setattr(plan_speed, "LIMIT_S", 0.2)
    wait = [sys.executable, "-c", "import time; time.sleep(30)"]
    assert not plan_speed.timed(wait, str(tmp_path))["ended"]


def test_where_a_rule_loses_by_hand() -> None:
    pytest.importorskip("numpy")
    from serving_choice import Point, where

    def point(tpot_s: float, rate: float, said_s: float) -> Point:
        group = ("m", "h100", "fp8", "1", "1")
        return Point(group, 1, 1, tpot_s, rate, said_s, rate)

    slow, quick = point(0.030, 2.0, 0.009), point(0.009, 1.0, 0.009)
    (row,) = where([[slow, quick]], lambda some, limit_s: some[0])
    # Limits of 10 and 20 ms are broken; 30 and 50 are kept, with the best.
    assert (row["questions"], row["broken"], row["kept"]) == (4, 2, 2)
    assert row["lost"] == 2.0
    assert row["broken_off"] == pytest.approx([-0.7, -0.7])
