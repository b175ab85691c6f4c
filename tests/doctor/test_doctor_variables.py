"""When a variable is worth a word."""

from __future__ import annotations

import pytest

from gpuscope.doctor.machine import LiveMachine, Recording
from gpuscope.doctor.variables import Setting, is_off, is_on, settings, settings_findings
from gpuscope.document.text import Text, render

ROWS = [row for table in ("cuda", "nccl", "torch") for row in settings(table)]


@pytest.mark.parametrize(
    ("value", "on", "off"),
    [
        ("1", True, False),
        ("true", True, False),
        ("0", False, True),
        ("OFF", False, True),
        ("", False, False),
        (" no ", False, True),
        ("2", True, False),
    ],
)
def test_switches(value: str, on: bool, off: bool) -> None:
    assert is_on(value) is on
    assert is_off(value) is off


@pytest.mark.parametrize(
    ("when", "values", "others"),
    [
        ("on", ["1", "True"], ["0", "no", ""]),
        ("off", ["0", "OFF"], ["1", ""]),
        ({"below": 8}, ["7", "-1", " 7.5 "], ["8", "many", ""]),
        ({"is": ["LOC", "0"]}, ["loc", " LOC ", "0"], ["SYS", ""]),
        ({"has": "debug"}, ["pymalloc_debug"], ["pymalloc", ""]),
    ],
)
def test_conditions(when: str | dict[str, object], values: list[str], others: list[str]) -> None:
    row = Setting("A", when, "note", Text("It is on."), Text("Slow."))
    assert [row.matches(value) for value in values] == [True] * len(values)
    assert [row.matches(value) for value in others] == [False] * len(others)


def test_a_condition_that_does_not_exist_is_refused() -> None:
    row = Setting("A", {"above": 8}, "note", Text("It is on."), Text("Slow."))
    with pytest.raises(ValueError, match="above"):
        row.matches("9")


@pytest.mark.parametrize("severity", ["note", "warning"])
def test_a_row_becomes_a_finding(severity: str) -> None:
    row = Setting("A_B", "on", severity, Text("It is on."), Text("Slow."), True)  # type: ignore[arg-type]
    found = list(settings_findings(Recording(environment={"A_B": "1"}), "name", [row]))
    assert [(f.check, f.severity) for f in found] == [("name", severity)]
    assert (found[0].fix is not None) == (severity == "warning")
    assert list(settings_findings(Recording(environment={"A_B": "0"}), "name", [row])) == []
    assert list(settings_findings(Recording(), "name", [row])) == []


def test_the_tables_have_both_languages_and_full_sentences() -> None:
    for row in ROWS:
        assert row.title.endswith(".")
        assert render(row.title, "zh").endswith("。")
        assert row.why.endswith(".")
        assert render(row.why, "zh").endswith("。")


def test_each_variable_of_the_tables_is_asked_of_a_live_machine() -> None:
    """A live machine keeps only variables of certain beginnings."""
    names = {row.name for row in ROWS}
    live = LiveMachine(dict.fromkeys(names, "1"))
    assert {name for name in names if live.variable(name) is None} == set()
