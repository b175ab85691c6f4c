"""Fine-tuning steps against what was predicted before: errors by hand, the recorded ones told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def test_an_error_is_a_share_of_what_was_measured() -> None:
    from tuning_memory_page import off

    line = {"peak_bytes": 100, "said": {"peak_bytes": 90}, "same": {"peak_bytes": 101}}
    assert off([line]) == [pytest.approx(-0.1)]
    assert off([line], "same") == [pytest.approx(0.01)]


def test_every_predicted_case_has_a_measurement() -> None:
    from tuning_memory import CASES
    from tuning_memory_page import cases

    assert {line["case"] for line in cases()} == {case.name for case in CASES}
    assert all(line["outcome"] == "ran" for line in cases())


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_section_tells_the_worst(lang: str) -> None:
    from tuning_memory_page import section

    text = "\n".join(section(lang))
    assert "0.81 %, 14.34 %" in text
    assert "gemma-2-2b, lora, 2 x 1024 | 19.52 GiB | 22.79 GiB | -14.34 %" in text
