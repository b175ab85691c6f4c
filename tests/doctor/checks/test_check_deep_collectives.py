from __future__ import annotations

import pytest
from deep_machines import answer, by_severity, healthy

from gpuscope.doctor.checks.deep_collectives import deep_collectives


def test_bandwidth_of_the_healthy_is_told_with_its_share() -> None:
    found = list(deep_collectives(healthy(2)))
    assert by_severity(found) == {"ok": [None]}
    assert "all_reduce 300 GB/s (100 %)" in found[0].found


def test_wrong_results_name_the_collective_and_the_rank() -> None:
    machine = healthy(4)
    answer(machine, "deep_collectives")["wrong"]["reduce_scatter"]["2"] = 1000
    found = list(deep_collectives(machine))
    assert by_severity(found) == {"error": [None]}
    assert "reduce_scatter: rank 2 1,000" in found[0].found


def test_slow_collectives() -> None:
    machine = healthy(4)
    answer(machine, "deep_collectives")["times"]["all_reduce"]["bus_bytes_per_s"] = 40e9
    found = list(deep_collectives(machine))
    assert by_severity(found) == {"warning": [None]}
    assert "all_reduce 40.0 GB/s" in found[0].found
    assert "all_gather" not in found[0].found


def test_the_same_rate_is_fine_where_no_link_joins_the_devices() -> None:
    machine = healthy(4)
    machine.probes["nvml"]["pairs"] = [{"p2p": {"nvlink": "not_supported"}}]
    for row in answer(machine, "deep_collectives")["times"].values():
        row["bus_bytes_per_s"] = 20e9
    assert by_severity(deep_collectives(machine)) == {"ok": [None]}


def test_a_hang_names_where_each_rank_stood() -> None:
    machine = healthy(2)
    answer(machine, "deep_collectives").update(
        wrong={}, times={}, stages={"0": "all_reduce, compared", "1": "joining the group"}
    )
    found = list(deep_collectives(machine))
    assert by_severity(found) == {"error": [None]}
    assert "rank 1: joining the group" in found[0].found


def test_ranks_that_never_started_are_no_hang() -> None:
    machine = healthy(2)
    answer(machine, "deep_collectives").update(
        wrong={}, times={}, stages={"0": "joining the group", "1": "starting"}
    )
    assert by_severity(deep_collectives(machine)) == {"unknown": [None]}


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("rank 0, joining: ncclSystemError: System call failed", "error"),
        ("rank 1, all_reduce: torch.OutOfMemoryError: CUDA out of memory.", "unknown"),
    ],
)
def test_a_rank_that_failed(text, severity) -> None:
    machine = healthy(2)
    answer(machine, "deep_collectives").update(wrong={}, times={}, ranks_error=text)
    assert by_severity(deep_collectives(machine)) == {severity: [None]}


def test_somebody_elses_work_makes_it_a_note() -> None:
    machine = healthy(2)
    data = answer(machine, "deep_collectives")
    data["times"]["all_reduce"]["bus_bytes_per_s"] = 40e9
    data["devices"][1]["before"]["utilisation"] = 0.9
    assert by_severity(deep_collectives(machine)) == {"note": [None]}


def test_one_device_has_no_collectives() -> None:
    assert list(deep_collectives(healthy(1))) == []
