from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.checks.running_libraries import cudnn_version


@pytest.mark.parametrize(
    ("number", "numbers"),
    [(91900, (9, 19, 0)), (90100, (9, 1, 0)), (8902, (8, 9, 2)), (None, ()), (0, ()), ("9", ())],
)
def test_cudnns_number(number, numbers) -> None:
    assert cudnn_version(number) == numbers


def test_what_runs_is_what_is_installed() -> None:
    (found,) = findings("running_libraries", h200())
    assert found.severity == "ok"
    assert found.found == "cuDNN 9.19.0, NCCL 2.28.9"


def test_another_library_on_the_path_is_a_warning() -> None:
    bad, good = findings("running_libraries", h200(cudnn=8902))
    assert bad.severity == "warning"
    assert "8.9.2 runs, 9.19.0.56 is installed" in bad.found
    assert good.found == "NCCL 2.28.9"
    assert severities("running_libraries", h200(nccl="2.18.5"))[0] == "warning"


def test_what_is_not_told_or_not_a_package_is_not_compared() -> None:
    assert severities("running_libraries", h200(cudnn=None, nccl=None)) == []
    machine = h200()
    machine.probes["torch_libraries"]["packages"] = {"torch": "2.11.0"}
    assert findings("running_libraries", machine) == []
    assert findings("running_libraries", cpu_only()) == []


def test_packages_for_two_cudas_tell_nothing() -> None:
    machine = h200(nccl=None)
    machine.probes["torch_libraries"]["packages"]["nvidia-cudnn-cu12"] = "9.1.0.70"
    assert findings("running_libraries", machine) == []
