"""The page of scripts that `plan` wrote says what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation"))

import tuning_scripts_page as page


def test_the_first_step_does_not_count() -> None:
    lora = next(c for c in page.cases() if c["case"] == "1B lora")
    assert lora["measured_s"] == pytest.approx(0.68484, rel=1e-3)  # the first took 2.6 s
    assert page.inside(lora)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_script_has_its_line(lang) -> None:
    text = "\n".join(page.section(lang))
    assert all(f"| {c['case']} |" in text for c in page.cases())
    assert text.count("✗") == sum(not page.inside(c) for c in page.cases())
