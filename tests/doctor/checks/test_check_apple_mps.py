from __future__ import annotations

from software_machines import cpu_only, findings, severities

from gpuscope.doctor.machine import Answer


def mac(**torch):
    machine = cpu_only()
    machine.probes["torch_libraries"] |= {"platform": "darwin", "machine": "arm64", **torch}
    return machine


def test_a_mac_whose_gpu_works_is_fine() -> None:
    machine = mac(mps_built=True, mps_available=True)
    assert severities("apple_mps", machine) == ["ok"]
    assert findings("driver", machine) == []  # nobody says that there is no accelerator


def test_a_translated_python_is_a_warning() -> None:
    machine = mac(machine="x86_64", mps_built=False, mps_available=False)
    machine.commands["sysctl -n machdep.cpu.brand_string"] = Answer(0, "Apple M3 Max\n")
    assert severities("apple_mps", machine) == ["warning"]


def test_an_intel_mac_is_a_note_and_other_systems_nothing() -> None:
    assert severities("apple_mps", mac(mps_built=True, mps_available=False)) == ["note"]
    assert findings("apple_mps", cpu_only()) == []
