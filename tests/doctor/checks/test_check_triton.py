from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities


def test_the_triton_that_pytorch_asks_for_is_fine() -> None:
    assert severities("triton", h200()) == ["ok"]


def test_another_triton_and_none_are_warnings() -> None:
    machine = h200()
    machine.probes["torch_libraries"]["packages"]["triton"] = "3.2.0"
    (found,) = findings("triton", machine)
    assert found.severity == "warning"
    assert found.commands == ("pip install triton==3.6.0",)
    del machine.probes["torch_libraries"]["packages"]["triton"]
    machine.probes["torch_libraries"]["triton"] = None
    assert severities("triton", machine) == ["warning"]


def test_a_patch_release_is_fine() -> None:
    machine = h200()
    machine.probes["torch_libraries"]["packages"]["triton"] = "3.6.1"
    assert severities("triton", machine) == ["ok"]


def test_processors_need_none() -> None:
    assert findings("triton", cpu_only()) == []
