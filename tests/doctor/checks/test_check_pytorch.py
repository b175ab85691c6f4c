from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities


def test_a_fitting_build_is_fine() -> None:
    (found,) = findings("pytorch", h200(8))
    assert found.severity == "ok"
    assert found.values["torch_devices"] == 8
    assert severities("pytorch", cpu_only()) == ["ok"]


def test_a_build_for_processors_on_a_gpu_machine_is_an_error() -> None:
    machine = h200(1, torch="2.11.0+cpu", cuda_build=None, devices=[], available=False)
    (found,) = findings("pytorch", machine)
    assert found.severity == "error"
    assert "CUDA" in found.found


def test_a_processors_own_amd_graphics_asks_for_no_rocm() -> None:
    machine = cpu_only()
    card = "/sys/bus/pci/devices/0000:05:00.0"
    machine.folders |= {"/sys/bus/pci/devices": ("0000:05:00.0",), "/dev": ("kfd",)}
    machine.texts |= {f"{card}/class": "0x030000", f"{card}/vendor": "0x1002"}
    assert severities("pytorch", machine) == ["ok"]


def test_a_separate_amd_accelerator_does() -> None:
    machine = cpu_only()
    card = "/sys/bus/pci/devices/0000:05:00.0"
    machine.folders["/sys/bus/pci/devices"] = ("0000:05:00.0",)
    machine.texts |= {f"{card}/class": "0x120000", f"{card}/vendor": "0x1002"}
    (found,) = findings("pytorch", machine)
    assert found.severity == "error"
    assert "ROCm" in found.found


def test_cuda_that_cannot_start_is_an_error_with_its_own_words() -> None:
    machine = h200(1, available=False, devices=[], available_error="CUDA unknown error")
    (found,) = findings("pytorch", machine)
    assert found.severity == "error"
    assert found.found == "CUDA unknown error"


def test_a_missing_pytorch_is_a_warning_only_where_there_is_a_gpu() -> None:
    gone = {"installed": False, "error": "No module named torch"}
    machine = cpu_only()
    machine.probes["torch_libraries"] = {**machine.probes["torch_libraries"], **gone}
    assert severities("pytorch", machine) == ["note"]
    assert severities("pytorch", h200(1, **gone)) == ["warning"]


def test_an_import_that_breaks_is_an_error() -> None:
    machine = h200(1, error="ImportError: libcudnn.so.9: cannot open shared object file")
    (found,) = findings("pytorch", machine)
    assert found.severity == "error"
    assert "libcudnn" in found.found


def test_a_crash_is_an_error_and_a_slow_disk_is_unknown() -> None:
    machine = h200()
    machine.probes["torch_libraries"] = None
    machine.probe_errors["torch_libraries"] = "no answer: segmentation fault"
    assert severities("pytorch", machine) == ["error"]
    machine.probe_silence_s["torch_libraries"] = 60.0
    assert severities("pytorch", machine) == ["unknown"]
