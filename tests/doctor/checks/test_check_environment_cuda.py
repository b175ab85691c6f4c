"""Variables of the table `doctor/variables_cuda.toml`."""

from __future__ import annotations

from checked import findings, sorts, the

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.variables import settings


def test_a_switch_that_is_on_is_told_and_one_that_is_off_is_not() -> None:
    told = the(
        findings("environment_cuda", Recording(environment={"CUDA_LAUNCH_BLOCKING": "1"})),
        "warning",
    )
    assert told.values == {"CUDA_LAUNCH_BLOCKING": "1"}
    assert told.commands == ("unset CUDA_LAUNCH_BLOCKING",)
    assert findings("environment_cuda", Recording(environment={"CUDA_LAUNCH_BLOCKING": "0"})) == []


def test_an_empty_environment_says_nothing() -> None:
    assert findings("environment_cuda", Recording()) == []


def test_every_row_can_be_met() -> None:
    """For each row there is a value that it is about, and its neighbours stay silent."""
    tried = ("1", "0", "LOC", "TRACE", "INFO", "DETAIL", "EAGER", ":4096:8", "GROUP", "lo", "debug")
    for row in settings("cuda"):
        value = next(v for v in tried if row.matches(v))
        found = findings("environment_cuda", Recording(environment={row.name: value}))
        assert row.title in [f.title for f in found]
        assert sorts(found).count(row.severity) >= 1
