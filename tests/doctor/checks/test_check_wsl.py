from __future__ import annotations

from software_machines import cpu_only, findings, h200, severities

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"


def wsl(version: str = "Linux version 5.15.167.4-microsoft-standard-WSL2"):
    machine = cpu_only()
    machine.texts["/proc/version"] = version
    machine.targets["/dev/dxg"] = "/dev/dxg"
    machine.folders["/usr/lib/wsl/lib"] = ("libcuda.so.1", "nvidia-smi")
    return machine


def test_windows_driver_is_fine() -> None:
    assert severities("wsl", wsl()) == ["ok"]


def test_a_linux_driver_inside_is_an_error() -> None:
    machine = wsl()
    machine.targets[LIBRARY] = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14"
    assert severities("wsl", machine) == ["error"]
    machine.targets[LIBRARY] = "/usr/lib/wsl/lib/libcuda.so.1"
    assert severities("wsl", machine) == ["ok"]


def test_the_first_wsl_has_no_gpu() -> None:
    machine = wsl("Linux version 4.4.0-19041-Microsoft")
    del machine.targets["/dev/dxg"]
    assert severities("wsl", machine) == ["error"]


def test_without_an_nvidia_driver_in_windows() -> None:
    machine = wsl()
    machine.folders["/usr/lib/wsl/lib"] = ("libd3d12.so",)
    assert severities("wsl", machine) == ["note"]


def test_other_systems_are_not_asked() -> None:
    assert findings("wsl", cpu_only()) == []
    assert findings("wsl", h200()) == []
