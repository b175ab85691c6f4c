"""Processes that run near their devices, far from them, or anywhere."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml, processors, server

from gpuscope.doctor.machine import Recording


def test_a_process_that_may_run_anywhere_is_advised_to_be_bound() -> None:
    told = the(findings("numa_affinity", server()), "note")
    assert "GPUs 0-3 at node 0, GPUs 4-7 at node 1" in told.found
    assert "numactl --cpunodebind=0" in told.commands[0]


def test_a_process_bound_beside_all_its_devices_is_well() -> None:
    near = server(4)
    processors(near, ("0-47", "48-95"), allowed="0-15")
    assert sorts(findings("numa_affinity", near)) == ["ok"]


def test_a_process_bound_far_from_a_device_is_told_which() -> None:
    far = server()
    processors(far, ("0-47", "48-95"), allowed="0-15")
    told = the(findings("numa_affinity", far), "warning")
    assert told.values == {"far_devices": 4, "bound_nodes": "0"}
    assert "GPUs 4-7 at node 1" in told.found
    assert "--cpunodebind=1" in told.commands[0]


def test_one_node_has_no_near_and_far() -> None:
    single = server(4)
    processors(single, ("0-47",))
    assert findings("numa_affinity", single) == []


def test_a_machine_that_hides_its_nodes_is_unknown() -> None:
    hidden = nvml([h200(0, memory_affinity=None), h200(1, memory_affinity=None)])
    processors(hidden, ("0-7", "8-15"))
    assert sorts(findings("numa_affinity", hidden)) == ["unknown"]


@pytest.mark.parametrize(("value", "count"), [("1\n", 2), ("0\n", 1), (None, 1)])
def test_automatic_balancing_is_told(value: str | None, count: int) -> None:
    balanced = server()
    balanced.texts["/proc/sys/kernel/numa_balancing"] = value
    assert len(findings("numa_affinity", balanced)) == count


def test_without_devices_nothing_is_said() -> None:
    plain = Recording()
    processors(plain, ("0-7", "8-15"))
    assert findings("numa_affinity", plain) == []
