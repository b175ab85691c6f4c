"""Variables of the table `doctor/variables_nccl.toml`."""

from __future__ import annotations

from checked import findings, sorts, the

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.variables import settings


def test_a_switch_that_is_on_is_told_and_one_that_is_off_is_not() -> None:
    told = the(
        findings("environment_nccl", Recording(environment={"NCCL_P2P_DISABLE": "1"})), "warning"
    )
    assert told.values == {"NCCL_P2P_DISABLE": "1"}
    assert told.commands == ("unset NCCL_P2P_DISABLE",)
    assert findings("environment_nccl", Recording(environment={"NCCL_P2P_DISABLE": "0"})) == []


def test_an_empty_environment_says_nothing() -> None:
    assert findings("environment_nccl", Recording()) == []


def test_every_row_can_be_met() -> None:
    """For each row there is a value that it is about, and its neighbours stay silent."""
    tried = ("1", "0", "LOC", "TRACE", "INFO", "DETAIL", "EAGER", ":4096:8", "GROUP", "lo", "debug")
    for row in settings("nccl"):
        value = next(v for v in tried if row.matches(v))
        found = findings("environment_nccl", Recording(environment={row.name: value}))
        assert row.title in [f.title for f in found]
        assert sorts(found).count(row.severity) >= 1
