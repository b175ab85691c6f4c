from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200, severities


@pytest.mark.parametrize(
    ("have", "severity"),
    [
        ("9.19.0.56", "ok"),
        ("9.20.0.1", "note"),  # newer, same major version
        ("9.10.2.21", "warning"),  # older
        ("10.0.0.1", "warning"),  # another major version
    ],
)
def test_cudnn_against_what_pytorch_asks_for(have: str, severity: str) -> None:
    machine = h200()
    machine.probes["torch_libraries"]["packages"]["nvidia-cudnn-cu13"] = have
    (found,) = findings("pinned_packages", machine)
    assert found.severity == severity
    if severity != "ok":
        assert found.commands == ("pip install nvidia-cudnn-cu13==9.19.0.56",)


def test_what_is_not_installed_as_a_package_is_not_compared() -> None:
    machine = h200()
    machine.probes["torch_libraries"]["packages"] = {"torch": "2.11.0"}
    assert findings("pinned_packages", machine) == []
    assert findings("pinned_packages", cpu_only()) == []


def test_triton_has_its_own_check() -> None:
    machine = h200()
    machine.probes["torch_libraries"]["packages"]["triton"] = "2.0.0"
    assert severities("pinned_packages", machine) == ["ok"]
