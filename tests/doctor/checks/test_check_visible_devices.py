from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities


def seeing(count: int, of: int, **environment: str):
    machine = h200(of)
    del machine.probes["torch_libraries"]["devices"][count:]
    machine.environment |= environment
    return machine


def test_all_are_visible() -> None:
    assert severities("visible_devices", h200(8)) == ["ok"]


def test_a_variable_that_hides_some_is_a_note_all_an_error() -> None:
    some = seeing(2, 8, CUDA_VISIBLE_DEVICES="0,1")
    (found,) = findings("visible_devices", some)
    assert found.severity == "note"
    assert "2 of 8" in found.found
    assert severities("visible_devices", seeing(0, 8, CUDA_VISIBLE_DEVICES="")) == ["error"]


def test_devices_missing_without_a_variable_are_a_warning() -> None:
    assert severities("visible_devices", seeing(6, 8)) == ["warning"]


def test_a_sliced_device_is_counted_otherwise() -> None:
    machine = seeing(1, 2)
    machine.probes["nvml"]["devices"][0]["mig_mode"] = True
    assert findings("visible_devices", machine) == []


def test_a_container_started_without_gpus() -> None:
    machine = cpu_only()
    assert findings("visible_devices", machine) == []
    machine.environment["NVIDIA_VISIBLE_DEVICES"] = "void"
    assert severities("visible_devices", machine) == ["note"]
