"""Devices that are split into slices."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def test_whole_devices_are_not_worth_a_line() -> None:
    assert findings("mig", nvml([h200(0), h200(1, mig_mode=None)])) == []
    assert findings("mig", Recording()) == []


def test_slices_are_listed() -> None:
    slices = ["NVIDIA H200 MIG 3g.71gb", "NVIDIA H200 MIG 3g.71gb"]
    split = h200(0, mig_mode=True, mig_mode_pending=True, mig_devices=slices)
    told = the(findings("mig", nvml([split])), "note")
    assert told.values == {"slices": 2}


def test_the_mode_without_a_slice_leaves_no_device() -> None:
    empty = h200(2, mig_mode=True, mig_mode_pending=True)
    told = the(findings("mig", nvml([empty])), "error")
    assert told.device == 2


def test_a_change_that_waits_for_a_reset_is_a_warning() -> None:
    assert sorts(findings("mig", nvml([h200(0, mig_mode_pending=True)]))) == ["warning"]


def with_variable(machine: Recording, value: str) -> Recording:
    machine.environment["CUDA_VISIBLE_DEVICES"] = value
    return machine


def test_slices_that_are_named_must_be_there() -> None:
    slices = {
        "mig_mode": True,
        "mig_mode_pending": True,
        "mig_devices": ["NVIDIA H200 MIG 3g.71gb"],
    }
    machine = nvml([h200(0, **slices, mig_uuids=["MIG-1111-2222"])])
    assert sorts(findings("mig", with_variable(machine, "MIG-1111"))) == ["note"]
    told = the(findings("mig", with_variable(machine, "MIG-9999")), "error")
    assert told.values == {"slices": 1, "asked": 1}
    assert "MIG-9999" in str(told.found)
    # A driver that tells no UUIDs: the count alone is held against the names.
    older = nvml([h200(0, **slices)])
    assert sorts(findings("mig", with_variable(older, "MIG-a"))) == ["note"]
    assert "error" in sorts(findings("mig", with_variable(older, "MIG-a,MIG-b")))
    assert findings("mig", with_variable(nvml([h200(0)]), "0,1")) == []
