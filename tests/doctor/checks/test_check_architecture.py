from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.checks.architecture import has_kernels


@pytest.mark.parametrize(
    ("built", "capability", "how"),
    [
        (["sm_90"], (9, 0), "binary"),
        (["sm_80"], (8, 6), "binary"),  # same major, newer minor
        (["sm_86"], (8, 0), ""),  # not the other way round
        (["sm_90"], (12, 0), ""),  # another major version
        (["sm_90", "compute_90"], (12, 0), "ptx"),
        (["sm_90a"], (9, 0), "binary"),
        (["sm_100a"], (10, 3), ""),  # "a" is for one device only
        (["sm_100f"], (10, 3), "binary"),  # "f" is for its family
        (["compute_90a"], (10, 0), ""),
        (["sm_50", "sm_60"], (9, 0), ""),
        (["gfx942"], (9, 0), ""),
        ([], (9, 0), ""),
    ],
)
def test_rules_of_compatibility(built, capability, how) -> None:
    assert has_kernels(built, capability) == how


@given(st.integers(5, 12), st.integers(0, 9), st.integers(0, 9))
def test_a_newer_minor_version_never_loses_its_kernels(major: int, built: int, more: int) -> None:
    assert has_kernels([f"sm_{major}{built}"], (major, built + more)) == "binary"


def with_device(capability: list[int], name: str = "NVIDIA GeForce RTX 5090", **torch):
    machine = h200(1, **torch)
    device = {"index": 0, "name": name, "compute_capability": capability, "works": True}
    machine.probes["torch_libraries"]["devices"] = [device]
    return machine


def test_a_wheel_without_blackwells_kernels_is_an_error() -> None:
    machine = with_device([12, 0], arch_list=["sm_80", "sm_90"])
    (found,) = findings("architecture", machine)
    assert found.severity == "error"
    assert "sm_120" in found.title


def test_ptx_alone_is_a_warning() -> None:
    machine = with_device([12, 0], arch_list=["sm_90", "compute_90"])
    assert severities("architecture", machine) == ["warning"]


def test_kernels_for_all_is_fine_and_a_build_for_processors_is_not_asked() -> None:
    assert severities("architecture", h200(8)) == ["ok"]
    assert findings("architecture", cpu_only()) == []
