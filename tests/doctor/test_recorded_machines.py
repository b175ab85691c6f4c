"""Real machines, recorded: nothing is wrong with them; with a fault put on top, it is found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.machine import Answer, Recording
from gpuscope.doctor.types import Finding

MACHINES = Path(__file__).parents[1] / "data" / "machines"


def recorded(name: str) -> Recording:
    """A fresh copy, to be changed."""
    return Recording.load(MACHINES / f"{name}.json")


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda p: p.stem)
def test_healthy_machines_give_no_alarm(path: Path) -> None:
    diagnosis = diagnose(Recording.load(path))
    alarms = [
        (f.check, f.title, f.found)
        for f in diagnosis.findings
        if f.severity in ("error", "warning")
    ]
    assert alarms == []
    assert [f for f in diagnosis.findings if f.known_by == "gpuscope"] == []  # no check broke


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda p: p.stem)
def test_recordings_name_no_folder_of_whoever_made_them(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "Serial Number" not in text
    assert "TOKEN" not in text


def test_a_machine_without_a_gpu_is_calm_and_short() -> None:
    diagnosis = diagnose(recorded("cpu-only"))
    assert sum(f.severity == "note" for f in diagnosis.findings) <= 2
    assert sum(f.severity == "unknown" for f in diagnosis.findings) == 0
    assert {"pytorch", "driver"} <= {f.check for f in diagnosis.findings}


def test_two_h200s_are_told_as_they_are() -> None:
    diagnosis = diagnose(recorded("h200-x2"))
    assert diagnosis.machine["gpus"] == "2× NVIDIA H200"
    assert diagnosis.machine["driver"] == "580.159.04"
    found = {f.check: f for f in diagnosis.findings}
    assert found["architecture"].severity == "ok"
    assert found["kernel_module"].values["module_flavour"] == "open"
    assert found["cuda_runtime"].values["cuda_build"] == "13.0"


def _old_driver(machine: Recording) -> None:
    machine.probes["nvml"] |= {"driver": "550.54.14", "cuda_driver": "12.4"}  # type: ignore[operator]
    machine.probes["torch_libraries"] |= {"available": False, "devices": []}  # type: ignore[operator]


def _older_module(machine: Recording) -> None:
    path = "/proc/driver/nvidia/version"
    machine.texts[path] = (machine.texts[path] or "").replace("580.159.04", "575.57.08")


def _no_kernels(machine: Recording) -> None:
    machine.probes["torch_libraries"] |= {"arch_list": ["sm_50", "sm_80"]}  # type: ignore[operator]


def _nccl_twice(machine: Recording) -> None:
    loaded: list[Any] = machine.probes["torch_libraries"]["loaded"]  # type: ignore[index]
    loaded.append("/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5")


def _small_shm(machine: Recording) -> None:
    row = "Filesystem 1K-blocks Used Available Use% Mounted on\nshm 65536 0 65536 0% /dev/shm\n"
    machine.commands["df -k /dev/shm"] = Answer(0, row)


def _one_fails(machine: Recording) -> None:
    device: dict[str, Any] = machine.probes["torch_libraries"]["devices"][1]  # type: ignore[index]
    device |= {"works": False, "error": "CUDA error: uncorrectable ECC error encountered"}


def _hidden(machine: Recording) -> None:
    machine.environment["CUDA_VISIBLE_DEVICES"] = "7"
    machine.probes["torch_libraries"] |= {"devices": [], "available": False}  # type: ignore[operator]


def _old_nvcc(machine: Recording) -> None:
    machine.commands["nvcc --version"] = Answer(0, "tools, release 12.1, V12.1.105")
    machine.environment.pop("CUDA_HOME", None)


def _few_processors(machine: Recording) -> None:
    machine.texts["/sys/fs/cgroup/cpu.max"] = "200000 100000"


@pytest.mark.parametrize(
    ("make_ill", "check", "severity"),
    [
        (_old_driver, "cuda_runtime", "error"),
        (_older_module, "kernel_module", "error"),
        (_no_kernels, "architecture", "error"),
        (_nccl_twice, "loaded_libraries", "warning"),
        (_small_shm, "shared_memory", "warning"),
        (_one_fails, "device_work", "error"),
        (_hidden, "visible_devices", "error"),
        (_old_nvcc, "toolkit", "warning"),
        (_few_processors, "resource_limits", "warning"),
    ],
)
def test_each_fault_on_top_is_found(make_ill, check: str, severity: str) -> None:
    machine = recorded("h200-x2")
    make_ill(machine)

    def bad(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
        return [(f.check, f.severity) for f in findings if f.severity in ("error", "warning")]

    assert (check, severity) in bad(diagnose(machine).findings)


def test_an_answer_that_is_cut_off_breaks_no_check() -> None:
    """Files and answers that end in the middle of a line, as a full disk leaves them."""
    machine = recorded("h200-x2")
    for path, text in machine.texts.items():
        machine.texts[path] = None if text is None else text[: len(text) // 2]
    for words, answer in machine.commands.items():
        if answer is not None:
            half = answer.out[: len(answer.out) // 2]
            machine.commands[words] = dataclasses.replace(answer, out=half)
    assert [f.found for f in diagnose(machine).findings if f.known_by == "gpuscope"] == []


_KEYS = sorted(recorded("h200-x2").probes["nvml"]["devices"][0])  # type: ignore[index]


def _without(value: Any) -> Any:
    """The same shape with every reading missing, as NVML gives it where nothing may be read."""
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items()}
    return [] if isinstance(value, list) else None


@pytest.mark.parametrize("key", [*(k for k in _KEYS if k not in ("index", "name")), "all"])
def test_a_reading_that_is_missing_raises_no_alarm(key: str) -> None:
    machine = recorded("h200-x2")
    for device in machine.probes["nvml"]["devices"]:  # type: ignore[index]
        for each in _KEYS if key == "all" else [key]:
            if each not in ("index", "name"):
                device[each] = _without(device[each])
    findings = diagnose(machine).findings
    assert [f.found for f in findings if f.known_by == "gpuscope"] == []
    alarms = [(f.check, f.title) for f in findings if f.severity in ("error", "warning")]
    assert alarms == []
