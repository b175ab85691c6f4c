from __future__ import annotations

import pytest
from software_machines import cpu_only, findings, h200, severities

from gpuscope.doctor.checks.resource_limits import allowed_cpus, cpu_limit, memory_limit
from gpuscope.doctor.containers import cpus_of

V2 = "/sys/fs/cgroup"


def host(machine, cpus: str = "0-63", memory_kib: int = 512 << 20):
    machine.texts |= {
        "/proc/self/status": f"Name:\tpython\nCpus_allowed_list:\t{cpus}\n",
        "/proc/meminfo": f"MemTotal:       {memory_kib} kB\n",
    }
    return machine


def test_limits_are_read_from_both_versions_of_cgroups() -> None:
    machine = cpu_only()
    assert (cpu_limit(machine), memory_limit(machine)) == (None, None)
    machine.texts |= {f"{V2}/cpu.max": "250000 100000\n", f"{V2}/memory.max": "max\n"}
    assert (cpu_limit(machine), memory_limit(machine)) == (2.5, None)
    old = cpu_only()
    old.texts |= {
        f"{V2}/cpu/cpu.cfs_quota_us": "400000",
        f"{V2}/cpu/cpu.cfs_period_us": "100000",
        f"{V2}/memory/memory.limit_in_bytes": "1073741824",
    }
    assert (cpu_limit(old), memory_limit(old)) == (4.0, 1 << 30)
    old.texts |= {
        f"{V2}/cpu/cpu.cfs_quota_us": "-1",
        f"{V2}/memory/memory.limit_in_bytes": "9223372036854771712",
    }
    assert (cpu_limit(old), memory_limit(old)) == (None, None)


@pytest.mark.parametrize(
    ("text", "count"), [("0-3", 4), ("0", 1), ("0-1,8-9\n", 4), ("", None), (None, None)]
)
def test_lists_of_processors(text, count) -> None:
    assert cpus_of(text) == count


def test_a_big_server_is_fine() -> None:
    machine = host(h200(2))
    (found,) = findings("resource_limits", machine)
    assert found.severity == "ok"
    assert found.values["cpus"] == 64
    assert allowed_cpus(machine) == 64


def test_few_processors_for_eight_gpus_are_a_warning() -> None:
    machine = host(h200(8), memory_kib=4 << 30)
    machine.texts[f"{V2}/cpu.max"] = "400000 100000"
    (found,) = findings("resource_limits", machine)
    assert found.severity == "warning"
    assert "4 processors for 8 GPUs" in found.found


def test_processes_killed_for_memory_are_a_warning() -> None:
    machine = host(cpu_only())
    machine.texts |= {
        f"{V2}/memory.max": str(8 << 30),
        f"{V2}/memory.events": "low 0\noom 3\noom_kill 2\n",
    }
    (found,) = findings("resource_limits", machine)
    assert found.severity == "warning"
    assert "2 killed" in found.found
    machine.texts[f"{V2}/memory.events"] = "oom_kill 0\n"
    assert severities("resource_limits", machine) == ["ok"]


def test_a_quota_that_bites_is_a_warning() -> None:
    machine = host(cpu_only())
    machine.texts |= {
        f"{V2}/cpu.max": "200000 100000",
        f"{V2}/cpu.stat": "nr_periods 1000\nnr_throttled 300\n",
    }
    (found,) = findings("resource_limits", machine)
    assert found.severity == "warning"
    assert found.values["throttled_share"] == pytest.approx(0.3)
    machine.texts[f"{V2}/cpu.stat"] = "nr_periods 1000\nnr_throttled 3\n"
    assert severities("resource_limits", machine) == ["ok"]


def test_less_host_than_device_memory_is_worth_a_note() -> None:
    assert severities("resource_limits", host(h200(8))) == ["note", "ok"]


def test_nothing_readable_is_nothing_said() -> None:
    assert findings("resource_limits", cpu_only()) == []
