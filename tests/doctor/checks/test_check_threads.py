"""Threads against processors."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml, processors

from gpuscope.doctor.machine import Recording


def host(cpus: int, devices: int = 1, chosen: int | None = None, **names: str) -> Recording:
    found = nvml([h200(i) for i in range(devices)])
    processors(found, (f"0-{cpus - 1}",))
    found.environment |= names
    if chosen is not None:
        found.probes["torch_libraries"] = {"installed": True, "error": None, "threads": chosen}
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (host(16, OMP_NUM_THREADS="16"), ["ok"]),
        (host(16, OMP_NUM_THREADS="17"), ["warning"]),
        (host(16, OMP_NUM_THREADS="1"), ["note"]),
        (host(2, OMP_NUM_THREADS="1"), ["ok"]),
        (host(16, devices=8, OMP_NUM_THREADS="1"), ["ok"]),
        (host(16, devices=8, OMP_NUM_THREADS="4"), ["note"]),
        (host(16, devices=8, OMP_NUM_THREADS="3"), ["ok"]),
        (host(16, chosen=16), ["ok"]),
        (host(16, chosen=64), ["warning"]),
        (host(96, devices=8, chosen=48), ["ok"]),  # torchrun sets one thread each
        (host(16), ["ok"]),
        (host(16, OMP_NUM_THREADS="many"), ["ok"]),
    ],
)
def test_each_state_has_its_severity(found: Recording, expected: list[str]) -> None:
    assert sorts(findings("threads", found)) == expected


def test_the_limit_of_a_container_counts() -> None:
    """PyTorch sees 64 processors; the control group gives 8 of them."""
    found = host(64, chosen=64)
    found.texts["/sys/fs/cgroup/cpu.max"] = "800000 100000\n"
    told = the(findings("threads", found), "warning")
    assert told.values == {"threads": 64, "usable_cpus": 8, "quota_cpus": 8.0}
    assert told.commands == ("export OMP_NUM_THREADS=8",)
    assert "64 are visible" in told.found


def test_nothing_is_said_where_processors_are_not_told() -> None:
    assert findings("threads", Recording()) == []
