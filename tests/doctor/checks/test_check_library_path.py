from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.checks.library_path import cuda_versions


def with_paths(libraries: str, programs: str = "/usr/bin"):
    machine = h200()
    machine.environment |= {"LD_LIBRARY_PATH": libraries, "PATH": programs}
    return machine


def test_versions_are_found_through_links_and_told_once() -> None:
    machine = with_paths("/usr/local/cuda/lib64:/usr/local/cuda-13.0/lib64:/opt/x")
    machine.targets["/usr/local/cuda/lib64"] = "/usr/local/cuda-13.0/lib64"
    assert cuda_versions(machine, "LD_LIBRARY_PATH") == ("13.0",)
    assert severities("library_path", machine) == ["ok"]


def test_two_versions_are_a_warning() -> None:
    machine = with_paths("/usr/local/cuda-12.4/lib64", "/usr/local/cuda-13.0/bin:/usr/bin")
    (found,) = findings("library_path", machine)
    assert found.severity == "warning"
    assert "12.4" in found.found
    assert "13.0" in found.found


def test_stubs_are_an_error() -> None:
    machine = with_paths("/usr/local/cuda-13.0/lib64/stubs")
    assert severities("library_path", machine) == ["error"]


def test_another_version_than_pytorchs_is_a_note() -> None:
    assert severities("library_path", with_paths("/usr/local/cuda-12.8/lib64")) == ["note"]


def test_empty_paths_are_nothing_to_tell() -> None:
    assert findings("library_path", cpu_only()) == []
