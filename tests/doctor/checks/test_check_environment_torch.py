"""Variables of the table `doctor/variables_torch.toml`."""

from __future__ import annotations

from checked import findings, sorts, the

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.variables import settings


def test_a_switch_that_is_on_is_told_and_one_that_is_off_is_not() -> None:
    told = the(
        findings(
            "environment_torch", Recording(environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        ),
        "warning",
    )
    assert told.values == {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    assert told.commands == ("unset PYTORCH_NO_CUDA_MEMORY_CACHING",)
    assert (
        findings(
            "environment_torch", Recording(environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"})
        )
        == []
    )


def test_an_empty_environment_says_nothing() -> None:
    assert findings("environment_torch", Recording()) == []


def test_every_row_can_be_met() -> None:
    """For each row there is a value that it is about, and its neighbours stay silent."""
    tried = ("1", "0", "LOC", "TRACE", "INFO", "DETAIL", "EAGER", ":4096:8", "GROUP", "lo", "debug")
    for row in settings("torch"):
        value = next(v for v in tried if row.matches(v))
        found = findings("environment_torch", Recording(environment={row.name: value}))
        assert row.title in [f.title for f in found]
        assert sorts(found).count(row.severity) >= 1
