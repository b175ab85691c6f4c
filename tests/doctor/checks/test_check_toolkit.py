from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.machine import Answer


def with_nvcc(release: str):
    machine = h200()
    machine.commands["nvcc --version"] = Answer(0, f"tools, release {release}, V{release}.1")
    return machine


def test_a_toolkit_as_pytorch_is_fine() -> None:
    assert severities("toolkit", with_nvcc("13.0")) == ["ok"]


def test_another_minor_version_is_a_note_another_major_one_a_warning() -> None:
    assert severities("toolkit", with_nvcc("13.1")) == ["note"]
    (found,) = findings("toolkit", with_nvcc("12.4"))
    assert found.severity == "warning"
    assert found.commands == ("export CUDA_HOME=/usr/local/cuda-13.0",)


def test_without_a_toolkit_nothing_is_wrong() -> None:
    machine = h200()
    machine.commands["nvcc --version"] = None
    assert severities("toolkit", machine) == ["ok"]
    assert findings("toolkit", cpu_only()) == []


def test_cuda_home_decides_and_must_agree_with_the_path() -> None:
    machine = with_nvcc("12.4")
    machine.environment["CUDA_HOME"] = "/usr/local/cuda-13.0/"
    machine.texts["/usr/local/cuda-13.0/version.json"] = '{"cuda": {"version": "13.0.2"}}'
    two, fits = findings("toolkit", machine)
    assert two.severity == "warning"
    assert "12.4" in two.found
    assert fits.severity == "ok"


def test_a_damaged_version_file_is_passed_over() -> None:
    machine = with_nvcc("13.0")
    machine.environment["CUDA_HOME"] = "/usr/local/cuda"
    machine.texts["/usr/local/cuda/version.json"] = '{"cuda": '
    assert severities("toolkit", machine) == ["ok"]
