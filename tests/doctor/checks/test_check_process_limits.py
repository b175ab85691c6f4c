"""Limits of this process."""

from __future__ import annotations

import pytest
from checked import findings, sorts
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording


def limits(files: str, processes: str) -> Recording:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        f"Max processes             {processes:<20} unlimited            processes\n"
        f"Max open files            {files:<20} 1048576              files\n"
    )
    return Recording(texts={"/proc/self/limits": text})


@pytest.mark.parametrize(
    ("files", "processes", "expected", "commands"),
    [
        ("20000", "96365", ["ok"], 0),
        ("unlimited", "unlimited", ["ok"], 0),
        ("1024", "96365", ["ok"], 0),
        ("512", "96365", ["note"], 1),
        ("512", "512", ["note"], 2),
    ],
)
def test_each_limit_has_its_severity(
    files: str, processes: str, expected: list[str], commands: int
) -> None:
    found = findings("process_limits", limits(files, processes))
    assert sorts(found) == expected
    assert len(found[0].commands) == commands


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("process_limits", Recording()) == []


def test_several_devices_need_more_files() -> None:
    found = limits("1024", "96365")
    found.probes = nvml([h200(0), h200(1)]).probes
    assert sorts(findings("process_limits", found)) == ["note"]
