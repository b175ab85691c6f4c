from __future__ import annotations

from software_machines import LIBCUDA, cpu_only, findings, h200, severities


def with_library(path: str):
    machine = h200()
    loaded = machine.probes["torch_libraries"]["loaded"]
    loaded[loaded.index(LIBCUDA)] = path
    return machine


def test_the_drivers_own_library_is_fine() -> None:
    assert severities("mounted_driver", h200()) == ["ok"]


def test_a_library_of_an_old_driver_is_a_warning() -> None:
    (found,) = findings("mounted_driver", with_library("/usr/lib/libcuda.so.535.54.03"))
    assert found.severity == "warning"
    assert found.values["libcuda"] == "535.54.03"


def test_forward_compatibility_is_a_note() -> None:
    path = "/usr/local/cuda/compat/libcuda.so.590.44.01"
    assert severities("mounted_driver", with_library(path)) == ["note"]


def test_a_name_without_a_version_is_not_judged() -> None:
    assert findings("mounted_driver", with_library("/usr/lib/wsl/lib/libcuda.so.1.1x")) == []
    assert findings("mounted_driver", cpu_only()) == []
