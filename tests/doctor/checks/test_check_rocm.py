from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.diagnose import diagnose

CARD = "/sys/bus/pci/devices/0000:05:00.0"


def mi300x(**torch):
    machine = cpu_only()
    machine.folders |= {"/sys/bus/pci/devices": ("0000:05:00.0",), "/dev": ("dri", "kfd")}
    machine.texts |= {
        f"{CARD}/class": "0x120000",
        f"{CARD}/vendor": "0x1002",
        "/sys/module/amdgpu/version": "6.12.12\n",
        "/opt/rocm/.info/version": "6.4.1-83\n",
    }
    machine.probes["torch_libraries"] |= {
        "hip_build": "6.4.43482",
        "device_kind": "cuda",
        "available": True,
        "packages": {"pytorch-triton-rocm": "3.4.0"},
        "arch_list": ["gfx942"],
        "devices": [{"index": 0, "name": "AMD Instinct MI300X", "works": True}],
        **torch,
    }
    return machine


def test_a_working_device_is_fine() -> None:
    (found,) = findings("rocm", mi300x())
    assert found.severity == "ok"
    assert "MI300X" in found.found
    assert found.values["gpus"] == "1× AMD Instinct MI300X"
    assert [f.check for f in diagnose(mi300x()).findings if f.severity != "ok"] == []


def test_without_the_compute_interface_nothing_works() -> None:
    machine = mi300x()
    machine.folders["/dev"] = ("dri",)
    (found,) = findings("rocm", machine)
    assert found.severity == "error"
    assert found.commands == ("sudo modprobe amdgpu",)
    machine.targets["/.dockerenv"] = "/.dockerenv"
    assert "--device /dev/kfd" in findings("rocm", machine)[0].commands[0]


def test_a_device_that_may_not_be_used_is_an_error() -> None:
    machine = mi300x(devices=[], available=False, available_error="No HIP GPUs are available")
    (found,) = findings("rocm", machine)
    assert found.severity == "error"
    assert "render" in found.commands[0]


def test_a_pretended_architecture_is_a_warning() -> None:
    machine = mi300x()
    machine.environment["HSA_OVERRIDE_GFX_VERSION"] = "11.0.0"
    assert severities("rocm", machine) == ["warning", "ok"]


def test_another_major_version_is_a_note() -> None:
    machine = mi300x()
    machine.texts["/opt/rocm/.info/version"] = "7.0.0"
    assert severities("rocm", machine) == ["note"]


def test_other_machines_are_not_asked() -> None:
    assert findings("rocm", cpu_only()) == []
    assert findings("rocm", h200()) == []
