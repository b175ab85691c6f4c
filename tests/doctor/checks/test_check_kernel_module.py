from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.checks.kernel_module import module_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun", "535.54.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Rel", "580.65.06"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86  Rel", "570.86"),
        ("something else", None),
        (None, None),
    ],
)
def test_the_version_is_read_from_both_kinds_of_module(text, version) -> None:
    assert module_version(text) == version


def test_a_module_that_fits_is_fine() -> None:
    (found,) = findings("kernel_module", h200())
    assert found.severity == "ok"
    assert found.values["module_flavour"] == "open"


def test_a_driver_updated_while_in_use_is_an_error() -> None:
    machine = h200()
    machine.probes["nvml"]["driver"] = "590.44.01"
    (found,) = findings("kernel_module", machine)
    assert found.severity == "error"
    assert "580.65.06" in found.found
    assert "590.44.01" in found.found


def test_nouveau_is_an_error() -> None:
    machine = h200()
    del machine.texts["/proc/driver/nvidia/version"]
    machine.texts["/proc/modules"] = "nouveau 1 0 - Live\n"
    assert severities("kernel_module", machine) == ["error"]


def test_a_missing_uvm_module_counts_only_where_cuda_fails() -> None:
    machine = h200()
    machine.texts["/proc/modules"] = "nvidia 2 1 - Live\n"
    assert severities("kernel_module", machine) == ["ok"]
    machine.probes["torch_libraries"]["available"] = False
    assert severities("kernel_module", machine) == ["error"]


def test_without_the_file_nothing_is_said() -> None:
    machine = h200()
    del machine.texts["/proc/driver/nvidia/version"]
    assert findings("kernel_module", machine) == []
    assert findings("kernel_module", cpu_only()) == []
