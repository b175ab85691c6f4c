"""When a variable is worth a word."""

from __future__ import annotations

import pytest

from gpuscope.doctor.machine import LiveMachine, Recording
from gpuscope.doctor.variables import Setting, below, is_off, is_on, settings_findings
from gpuscope.doctor.variables_cuda import CUDA
from gpuscope.doctor.variables_nccl import NCCL
from gpuscope.doctor.variables_torch import TORCH
from gpuscope.explain.types import Words


@pytest.mark.parametrize(
    ("value", "on", "off"),
    [("1", True, False), ("true", True, False), ("0", False, True), ("OFF", False, True),
     ("", False, False), (" no ", False, True), ("2", True, False)],
)  # fmt: skip
def test_switches(value: str, on: bool, off: bool) -> None:
    assert is_on(value) is on
    assert is_off(value) is off


@pytest.mark.parametrize(
    ("value", "expected"), [("7", True), ("8", False), ("-1", True), ("many", False), ("", False)]
)
def test_numbers_below_a_limit(value: str, expected: bool) -> None:
    assert below(8)(value) is expected


@pytest.mark.parametrize("severity", ["note", "warning"])
def test_a_row_becomes_a_finding(severity: str) -> None:
    row = Setting(
        "A_B", is_on, severity, Words("It is on.", "已开启。"), Words("Slow.", "慢。"), True
    )  # type: ignore[arg-type]
    found = list(settings_findings(Recording(environment={"A_B": "1"}), "name", [row]))
    assert [(f.check, f.severity) for f in found] == [("name", severity)]
    assert (found[0].fix is not None) == (severity == "warning")
    assert list(settings_findings(Recording(environment={"A_B": "0"}), "name", [row])) == []
    assert list(settings_findings(Recording(), "name", [row])) == []


def test_the_tables_have_both_languages_and_full_sentences() -> None:
    for row in (*CUDA, *NCCL, *TORCH):
        assert row.title.en.endswith(".")
        assert row.title.zh.endswith("。")
        assert row.why.en.endswith(".")
        assert row.why.zh.endswith("。")


def test_each_variable_of_the_tables_is_asked_of_a_live_machine() -> None:
    """A live machine keeps only variables of certain beginnings."""
    names = {row.name for row in (*CUDA, *NCCL, *TORCH)}
    live = LiveMachine(dict.fromkeys(names, "1"))
    assert {name for name in names if live.variable(name) is None} == set()
