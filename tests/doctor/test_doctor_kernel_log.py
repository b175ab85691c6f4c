"""The kernel's log as checks read it."""

from __future__ import annotations

import pytest
from wired_machines import h200, nvml

from gpuscope.doctor.kernel_log import device_at, kernel_log
from gpuscope.doctor.machine import Recording


def test_lines_are_found_whatever_their_case() -> None:
    told = {"source": "dmesg", "lines": ["one XID", "two"], "error": None}
    log = kernel_log(Recording(probes={"kernel_log": told}))
    assert log.matching("xid") == ["one XID"]
    assert log.source == "dmesg"


def test_a_probe_that_failed_says_why() -> None:
    log = kernel_log(Recording(probe_errors={"kernel_log": "no answer within 20 s"}))
    assert log.source is None
    assert log.lines == ()
    assert log.error == "no answer within 20 s"


@pytest.mark.parametrize(
    ("bus", "expected"),
    [("0000:23:00", 1), ("0000:23:00.0", 1), ("00000000:13:00.0", 0), ("0000:99:00", None)],
)
def test_addresses_lead_to_devices(bus: str, expected: int | None) -> None:
    assert device_at(nvml([h200(0), h200(1)]), bus) == expected
