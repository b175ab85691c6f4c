from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200


def found(built: str, most: str, **torch):
    machine = h200(1, cuda_build=built, **torch)
    machine.probes["nvml"]["cuda_driver"] = most
    return findings("cuda_runtime", machine)


@pytest.mark.parametrize(
    ("built", "most", "severity"),
    [
        ("13.0", "13.0", "ok"),
        ("12.4", "13.0", "ok"),  # drivers run all that is older
        ("11.8", "13.0", "ok"),
        ("12.8", "12.2", "note"),  # minor-version compatibility
        ("13.2", "13.0", "note"),
    ],
)
def test_compatibility(built: str, most: str, severity: str) -> None:
    (one,) = found(built, most)
    assert one.severity == severity


def test_an_older_major_version_is_an_error_where_cuda_fails() -> None:
    (one,) = found("13.0", "12.4", available=False, devices=[])
    assert one.severity == "error"
    assert one.fix is not None
    assert "580.65.06" in one.fix  # NVIDIA's oldest driver for CUDA 13
    assert "CUDA 12" in one.fix


def test_forward_compatibility_that_works_is_a_note() -> None:
    (one,) = found("13.0", "12.4")
    assert one.severity == "note"


def test_the_driver_that_has_everything_is_named() -> None:
    (one,) = found("12.8", "12.2")
    assert one.fix is not None
    assert "570.26" in one.fix


def test_nothing_to_compare() -> None:
    assert findings("cuda_runtime", cpu_only()) == []
    assert findings("cuda_runtime", h200(1, cuda_build=None)) == []
