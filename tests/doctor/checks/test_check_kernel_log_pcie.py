"""PCIe errors in the kernel log."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import server

from gpuscope.doctor.machine import Recording

CORRECTED = (
    "[ 5.1] pcieport 0000:12:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
    "(Receiver ID)"
)
FATAL = (
    "[ 9.4] pcieport 0000:12:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), "
    "type=Transaction Layer"
)


def logged(found: Recording, *lines: str) -> Recording:
    found.probes["kernel_log"] = {"source": "dmesg", "lines": list(lines), "error": None}
    return found


def test_a_clear_log_is_told() -> None:
    assert sorts(findings("kernel_log_pcie", logged(server()))) == ["ok"]


def test_repaired_errors_are_a_note_with_the_device_below() -> None:
    told = the(findings("kernel_log_pcie", logged(server(), CORRECTED, CORRECTED)), "note")
    assert told.device == 0
    assert told.values == {"pcie_error_lines": 2, "uncorrected": False}


def test_lost_data_on_the_way_to_a_device_is_an_error() -> None:
    told = the(findings("kernel_log_pcie", logged(server(), CORRECTED, FATAL)), "error")
    assert told.values == {"pcie_error_lines": 1, "uncorrected": True}


def test_lost_data_elsewhere_is_a_warning() -> None:
    elsewhere = FATAL.replace("0000:12:00.0", "0000:f1:00.0")
    assert sorts(findings("kernel_log_pcie", logged(server(), elsewhere))) == ["warning"]


def test_a_machine_without_devices_or_log_says_nothing() -> None:
    assert findings("kernel_log_pcie", logged(Recording())) == []
    assert findings("kernel_log_pcie", server()) == []
