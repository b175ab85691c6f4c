from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.machine import Answer


def test_a_working_driver_is_told_with_its_devices() -> None:
    (found,) = findings("driver", h200(8))
    assert found.severity == "ok"
    assert found.values["gpus"] == "8× NVIDIA H200"
    assert "580.65.06" in found.found


def test_a_machine_without_a_gpu_is_calm() -> None:
    assert severities("driver", cpu_only()) == ["note"]


def test_a_container_without_a_gpu_is_told_how_to_get_one() -> None:
    machine = cpu_only()
    machine.targets["/.dockerenv"] = "/.dockerenv"
    (found,) = findings("driver", machine)
    assert found.severity == "note"
    assert found.fix is not None
    assert "--gpus all" in found.fix


@pytest.mark.parametrize(
    ("code", "word"), [(9, "not loaded"), (18, "different versions"), (12, "not here"), (999, "")]
)
def test_a_driver_that_fails_is_an_error_with_its_cause(code: int, word: str) -> None:
    machine = h200()
    machine.probes["nvml"] = {"error": "it failed", "code": code, "devices": []}
    (found,) = findings("driver", machine)
    assert found.severity == "error"
    assert word in found.title
    assert str(code) in found.found


def test_a_missing_library_in_a_container_is_the_runtime_not_an_installation() -> None:
    machine = h200()
    machine.probes["nvml"] = {"error": "not found", "code": 12, "devices": []}
    assert "docker" not in " ".join(findings("driver", machine)[0].commands)
    machine.targets["/.dockerenv"] = "/.dockerenv"
    assert "docker" in " ".join(findings("driver", machine)[0].commands)


def test_a_lost_gpu_is_named() -> None:
    machine = h200(2)
    machine.probes["nvml"]["devices"][1] = {"index": 1, "lost": True}
    (found,) = findings("driver", machine)
    assert (found.severity, found.device) == ("error", 1)


def test_a_gpu_that_the_driver_left_out_is_missed() -> None:
    machine = h200(8)
    machine.probes["nvml"]["devices"].pop()
    (found,) = findings("driver", machine)
    assert found.severity == "warning"
    assert "1 missing" in found.found


def test_a_container_that_was_given_some_of_the_gpus_is_fine() -> None:
    machine = h200(8)
    machine.targets["/.dockerenv"] = "/.dockerenv"
    del machine.probes["nvml"]["devices"][2:]
    assert severities("driver", machine) == ["ok"]


def test_no_devices_at_all_is_an_error() -> None:
    machine = h200()
    machine.probes["nvml"]["devices"] = []
    assert severities("driver", machine) == ["error"]


def test_a_driver_that_hangs_is_an_error_one_that_cannot_be_asked_is_unknown() -> None:
    machine = h200()
    machine.probes["nvml"] = None
    machine.probe_errors["nvml"] = "it hangs"
    machine.probe_silence_s["nvml"] = 20.0
    assert severities("driver", machine) == ["error"]
    machine.probe_errors["nvml"] = "no answer: ImportError"
    machine.probe_silence_s.clear()
    assert severities("driver", machine) == ["unknown"]


def test_without_the_package_nvidia_smi_tells_the_version() -> None:
    machine = h200()
    machine.probes["nvml"] = {"error": "no pynvml", "code": None, "devices": [], "package": False}
    machine.commands["nvidia-smi"] = Answer(0, "| NVIDIA-SMI 580.65  Driver Version: 580.65.06 |")
    (found,) = findings("driver", machine)
    assert found.severity == "note"
    assert found.values["driver"] == "580.65.06"
