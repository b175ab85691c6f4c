"""Who holds memory of the devices."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording

GIB = 1 << 30
TOTAL = 150754820096


def holding(used: int, *processes: dict, index: int = 0, told: bool = True) -> dict:
    memory = {"total_bytes": TOTAL, "used_bytes": used}
    return h200(index, memory=memory, processes=list(processes) if told else None)


def someone(pid: int = 700, held: int = 40 * GIB) -> dict:
    return {"pid": pid, "type": "compute", "name": "/usr/bin/python", "memory_bytes": held}


def test_what_the_driver_keeps_for_itself_is_free() -> None:
    assert sorts(findings("device_processes", nvml([h200(0), h200(1)]))) == ["ok"]


def test_others_at_work_are_told() -> None:
    told = the(findings("device_processes", nvml([holding(41 * GIB, someone())])), "note")
    assert "700 (python, 40.0 GiB)" in told.found


def test_a_dead_process_is_blamed() -> None:
    found = nvml([holding(41 * GIB, someone())])
    found.texts["/proc/700/status"] = "Name:\tpython\nState:\tZ (zombie)\nPPid:\t12\n"
    told = the(findings("device_processes", found), "warning")
    assert told.values == {"pid": 700, "memory_bytes": 40 * GIB}


def test_numbers_of_processes_mean_nothing_inside_a_container() -> None:
    found = nvml([holding(41 * GIB, someone())])
    found.texts["/proc/700/status"] = "Name:\tbash\nState:\tZ (zombie)\n"
    found.targets["/.dockerenv"] = "/.dockerenv"
    assert sorts(findings("device_processes", found)) == ["note"]


def test_memory_that_nobody_owns_is_told_and_blamed_only_on_the_host() -> None:
    found = nvml([holding(41 * GIB)])
    assert the(findings("device_processes", found), "warning").values["used_bytes"] == 41 * GIB
    found.targets["/.dockerenv"] = "/.dockerenv"
    assert sorts(findings("device_processes", found)) == ["note"]
    silent = nvml([holding(41 * GIB, told=False)])
    assert sorts(findings("device_processes", silent)) == ["note"]


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("device_processes", Recording()) == []
    assert findings("device_processes", nvml([h200(memory={})])) == []


def test_in_wsl_memory_may_belong_to_windows() -> None:
    found = nvml([holding(4 * GIB)])
    found.texts["/proc/version"] = "Linux version 5.15.0-microsoft-standard-WSL2\n"
    assert "Windows" in the(findings("device_processes", found), "note").found
