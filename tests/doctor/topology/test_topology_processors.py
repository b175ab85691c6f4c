"""Processors, memory nodes, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wired_machines import processors

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology.processors import cpu_list, cpu_quota, nodes, usable_cpus


@given(st.sets(st.integers(0, 300)))
def test_lists_are_read_as_the_kernel_writes_them(cpus: set[int]) -> None:
    assert cpu_list(",".join(map(str, sorted(cpus))) + "\n") == cpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8\n", {0, 1, 2, 3, 8}), ("", set()), ("nonsense", set()), ("5", {5}), ("3-1", set())],
)
def test_ranges_and_nonsense(text: str, expected: set[int]) -> None:
    assert cpu_list(text) == expected


def test_a_single_node_has_all_the_memory() -> None:
    """Virtual machines add memory after the start; the node's own file forgets it."""
    found = Recording()
    processors(found, ("0-3",))
    found.texts["/proc/meminfo"] = "MemTotal:       1000 kB\n"
    assert nodes(found)[0].memory_bytes == 1000 * 1024
    processors(found, ("0-3", "4-7"))
    assert nodes(found)[0].memory_bytes == 1056000000 * 1024


def test_processors_without_nodes_are_one_node() -> None:
    found = Recording(texts={"/sys/devices/system/cpu/online": "0-7\n"})
    assert [len(n.cpus) for n in nodes(found)] == [8]


def test_the_tightest_group_above_the_process_counts() -> None:
    found = Recording()
    processors(found, ("0-63",))
    found.texts["/proc/self/cgroup"] = "0::/kubepods/pod1/box\n"
    found.texts["/sys/fs/cgroup/kubepods/pod1/box/cpu.max"] = "max 100000\n"
    found.texts["/sys/fs/cgroup/kubepods/pod1/cpu.max"] = "650000 100000\n"
    found.texts["/sys/fs/cgroup/cpu.max"] = "max 100000\n"
    assert cpu_quota(found) == 6.5
    assert usable_cpus(found) == 6


def test_groups_of_version_1_are_read() -> None:
    found = Recording()
    processors(found, ("0-7",))
    found.texts["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "50000\n"
    found.texts["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n"
    assert cpu_quota(found) == 0.5
    assert usable_cpus(found) == 1, "half a processor still runs one thread"
    found.texts["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1\n"
    assert cpu_quota(found) is None
    assert usable_cpus(found) == 8


def test_nothing_told_is_nothing_known() -> None:
    assert usable_cpus(Recording()) is None
    assert nodes(Recording()) == ()
