"""The table of machines nobody benched: each counts alike, and says what its page says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def test_a_machine_of_many_programs_counts_as_one_of_few() -> None:
    from hosts import Step, middle, table

    few = [Step(2.0, 1.0, 0.9, 1.4)]
    many = [Step(1.0, 1.0, 0.9, 1.4)] * 5
    slow = [Step(3.0, 1.0, 0.9, 1.4)] * 9
    assert middle([few, many, slow]) == 2.0
    last = table({"few": few, "many": many, "slow": slow})[-1]
    assert last.startswith("| all | 15 | 3.00 |")
    assert last.endswith("| 5 of 15 |")
    # Above the lower end, below the upper tenth of the others: 1 of few, all of many, none of slow.
    assert "| 6 of 15 |" in last


def test_the_pages_show_the_machines() -> None:
    from hosts import PAGES, machines, table
    from pages import ROOT

    lines = table(machines())
    assert len(lines) == len(machines()) + 1 >= 9
    for page in PAGES:
        assert "\n".join(lines) in (ROOT / "docs" / page).read_text("utf-8")


def test_the_first_host_is_taken_as_it_was_measured() -> None:
    from predictions import constants_of

    from gpuscope.hardware import calibration_for, device

    assert constants_of("gpt2-train-b8").value("host.scale") == 1.0
    assert constants_of("bilstm-train").value("host.scale") == 1.0
    assert calibration_for(device("h200")).value("host.scale") > 1.3
