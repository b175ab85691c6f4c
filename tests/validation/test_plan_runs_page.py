"""Own runs against what was predicted: regret, verdicts on memory, order; by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _line(measured: float, predicted: float, fits: float = 1.0, chosen: bool = False) -> Any:
    said = {"step_s": predicted, "fits": fits, "chosen": chosen}
    return {"question": "q", "step_s": measured, "said": said}


def test_regret_is_over_the_best_measured() -> None:
    from plan_runs_page import regrets

    lines = [_line(1.0, 1.1), _line(1.2, 1.0, chosen=True), _line(3.0, 2.0)]
    chosen, best, regret = regrets(lines)["q"]
    assert (chosen, best) == (lines[1], lines[0])
    assert regret == pytest.approx(0.2)


def test_verdicts_on_memory() -> None:
    from plan_runs_page import fits

    ran = [_line(1.0, 1.0, 1.0), _line(1.0, 1.0, 0.94)]
    full = [_line(1.0, 1.0, 0.2), _line(1.0, 1.0, 0.96)]
    assert fits(ran, full) == (4, 2, 1)


def test_order() -> None:
    from plan_runs_page import tau

    assert tau([_line(1.0, 1.0), _line(2.0, 2.0), _line(3.0, 1.5)]) == pytest.approx(1 / 3)


def test_every_measured_plan_was_predicted_before() -> None:
    from plan_runs_page import runs

    found = runs()
    assert {line["outcome"] for line in found} == {"ran", "out of memory", "failed"}
    assert all(line["said"]["usable_bytes"] > 0 for line in found)
