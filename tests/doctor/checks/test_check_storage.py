"""Room and speed of where data lies."""

from __future__ import annotations

from typing import Any

from checked import findings, sorts, the

from gpuscope.doctor.machine import Recording

GIB = 1 << 30


def place(**changes: Any) -> dict[str, Any]:
    return {
        "error": None,
        "filesystem": "ext4",
        "total_bytes": 1000 * GIB,
        "free_bytes": 400 * GIB,
        "write_bytes_per_s": 1.5e9,
        "read_bytes_per_s": 2.5e9,
        **changes,
    }


def disks(**places: dict[str, Any]) -> Recording:
    named = {name.replace("_", " "): each for name, each in places.items()}
    return Recording(probes={"storage": {"places": named}})


def test_good_disks_are_one_line() -> None:
    only = the(findings("storage", disks(working_folder=place(), temporary_folder=place())), "ok")
    assert "reads 2.5 GB/s" in only.found
    assert only.values["working folder: free_bytes"] == 400 * GIB


def test_full_and_almost_full_differ() -> None:
    little = findings("storage", disks(working_folder=place(free_bytes=2 * GIB)))
    assert sorts(little) == ["warning"]
    full = findings("storage", disks(working_folder=place(free_bytes=GIB // 8)))
    assert sorts(full) == ["error"]


def test_a_small_disk_with_its_share_free_is_well() -> None:
    small = place(total_bytes=20 * GIB, free_bytes=1 * GIB)
    assert sorts(findings("storage", disks(working_folder=small))) == ["ok"]


def test_shared_memory_is_not_a_disk() -> None:
    shared = Recording(
        probes={"storage": {"places": {"/dev/shm": place(total_bytes=GIB, free_bytes=GIB // 64)}}}
    )
    assert sorts(findings("storage", shared)) == ["ok"]


def test_slow_disks_are_a_note_and_the_others_are_still_told() -> None:
    slow = place(read_bytes_per_s=60e6, filesystem="nfs4")
    found = findings("storage", disks(working_folder=slow, temporary_folder=place()))
    assert sorts(found) == ["note", "ok"]
    assert "60 MB/s reading" in found[0].found
    assert "nfs4" in found[0].found


def test_a_place_that_cannot_be_written_to_is_a_note() -> None:
    found = findings("storage", disks(working_folder=place(error="Read-only file system")))
    assert sorts(found) == ["note"]


def test_nothing_is_said_where_nothing_is_told() -> None:
    assert findings("storage", Recording()) == []
    silent = place(free_bytes=None, read_bytes_per_s=None, write_bytes_per_s=None)
    assert sorts(findings("storage", disks(working_folder=silent))) == ["ok"]
