from __future__ import annotations

import pytest
from software_machines import cpu_only, findings

from gpuscope.doctor.checks.shared_memory import shared_memory
from gpuscope.doctor.machine import Answer

HEAD = "Filesystem     1K-blocks  Used Available Use% Mounted on\n"


def with_shm(size_kib: int, free_kib: int, docker: bool = False):
    machine = cpu_only()
    row = f"tmpfs {size_kib} {size_kib - free_kib} {free_kib} 1% /dev/shm\n"
    machine.commands["df -k /dev/shm"] = Answer(0, HEAD + row)
    if docker:
        machine.targets["/.dockerenv"] = "/.dockerenv"
    return machine


def test_dockers_default_is_a_warning_with_the_option_that_mends_it() -> None:
    (found,) = findings("shared_memory", with_shm(65536, 65536, docker=True))
    assert found.severity == "warning"
    assert found.values["shm_bytes"] == 64 << 20
    assert "docker run --shm-size=16g ..." in found.commands
    (found,) = findings("shared_memory", with_shm(65536, 65536))
    assert "remount" in found.commands[0]


def test_plenty_is_fine_and_nearly_full_is_not() -> None:
    big = 16 << 20
    assert [f.severity for f in findings("shared_memory", with_shm(big, big))] == ["ok"]
    (found,) = findings("shared_memory", with_shm(big, 1 << 10))
    assert found.severity == "warning"
    assert "full" in found.title


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Answer(1, "", "no such file"),
        Answer(0, HEAD + "overlay 100 50 50 50% /\n"),  # /dev/shm is no file system of its own
        Answer(0, ""),
        Answer(None, ""),
    ],
)
def test_what_cannot_be_read_is_not_judged(answer: Answer | None) -> None:
    machine = cpu_only()
    machine.commands["df -k /dev/shm"] = answer
    assert shared_memory(machine) is None
    assert findings("shared_memory", machine) == []
