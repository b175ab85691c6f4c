"""Xid and SXid lines in the kernel log."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def logged(*lines: str, source: str | None = "dmesg") -> Recording:
    found = nvml([h200(0), h200(1)])
    found.probes["kernel_log"] = {"source": source, "lines": list(lines), "error": None}
    return found


def xid(code: int, rest: str = "pid=41, name=python", bus: str = "0000:23:00") -> str:
    return f"[ 812.5] NVRM: Xid (PCI:{bus}): {code}, {rest}"


def test_a_clear_log_is_told() -> None:
    assert sorts(findings("kernel_log_xid", logged())) == ["ok"]


def test_a_device_that_fell_off_the_bus_is_named() -> None:
    told = the(findings("kernel_log_xid", logged(xid(79, "GPU has fallen off the bus."))), "error")
    assert told.device == 1, "bus 23 is the second device"
    assert told.values == {"xid": 79, "times": 1, "pci": "0000:23:00"}
    assert "power" in told.title


def test_equal_lines_are_counted_once() -> None:
    found = findings("kernel_log_xid", logged(xid(31), xid(31), xid(31), xid(13)))
    assert sorts(found) == ["note", "note"], "faults of a program are no fault of the machine"
    assert {f.values["xid"]: f.values["times"] for f in found} == {31: 3, 13: 1}


def test_an_unknown_number_points_to_the_catalogue() -> None:
    told = the(findings("kernel_log_xid", logged(xid(777))), "warning")
    assert "Xid 777" in told.title


def test_a_contained_error_is_less_grave_than_one_that_spread() -> None:
    assert sorts(findings("kernel_log_xid", logged(xid(94)))) == ["warning"]
    assert sorts(findings("kernel_log_xid", logged(xid(95)))) == ["error"]


def test_a_device_that_is_not_ours_keeps_its_address() -> None:
    told = the(findings("kernel_log_xid", logged(xid(48, bus="0000:c6:00"))), "error")
    assert told.device is None
    assert "0000:c6:00" in told.title


def test_switches_report_by_sxid() -> None:
    line = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    assert sorts(findings("kernel_log_xid", logged(line))) == ["error"]
    mild = line.replace("Fatal", "Non-fatal")
    assert sorts(findings("kernel_log_xid", logged(mild))) == ["warning"]


def test_a_log_that_may_not_be_read_is_unknown_only_where_devices_are() -> None:
    assert sorts(findings("kernel_log_xid", logged(source=None))) == ["unknown"]
    plain = Recording(probes={"kernel_log": {"source": None, "lines": [], "error": "denied"}})
    assert findings("kernel_log_xid", plain) == []
    assert findings("kernel_log_xid", Recording()) == []
