from __future__ import annotations

import os

from gpuscope.doctor.probes import deep_collectives
from gpuscope.doctor.probes.deep_collectives import environment, gathered, run_ranks
from gpuscope.measurement.accelerator import Accelerator


def test_two_real_ranks_on_the_processor() -> None:
    found = run_ranks(2, "cpu", size_bytes=1 << 16, limit_s=60)
    assert found["ranks_error"] is None
    assert found["stages"] is None
    for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        assert found["wrong"][operation] == {"0": 0, "1": 0}
    assert found["times"]["all_reduce"]["bus_bytes_per_s"] > 0
    assert found["facts"]["backend"] == "gloo"


def test_a_rank_that_ends_is_named_with_its_error(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = run_ranks(2, "cuda", size_bytes=1 << 16, limit_s=60)
    assert found["stages"] is None
    assert found["ranks_error"].startswith("rank 0, joining the group: ")
    assert "Error" in found["ranks_error"]


def test_ranks_that_hang_are_ended_and_told(monkeypatch) -> None:
    found = run_ranks(2, "cpu", size_bytes=1 << 16, limit_s=0.2)
    assert set(found["stages"]) == {"0", "1"}
    assert found["ranks_error"] is None


def test_switch_additions_are_off_unless_asked_for() -> None:
    found = environment(3, 8, 1234, {})
    assert found["NCCL_NVLS_ENABLE"] == "0"
    assert (found["RANK"], found["LOCAL_RANK"], found["WORLD_SIZE"]) == ("3", "3", "8")
    own = environment(
        0,
        2,
        1,
        {"NCCL_NVLS_ENABLE": "1", "RANK": "5", "PATH": "/bin", "TORCHELASTIC_USE_AGENT_STORE": "1"},
    )
    assert own["NCCL_NVLS_ENABLE"] == "1"
    assert own["RANK"] == "0"  # not that of a job around it
    assert own["PATH"] == "/bin"
    assert "TORCHELASTIC_USE_AGENT_STORE" not in own


def test_what_the_ranks_wrote_is_put_together() -> None:
    rows = [
        [
            {"stage": "a"},
            {"facts": True, "nccl": "2.28"},
            {"operation": "x", "wrong": 0},
            {"operation": "x", "seconds": 1.0, "bytes": 8, "bus_bytes_per_s": 8.0},
        ],
        [{"operation": "x", "wrong": 3}],
    ]
    found = gathered(rows)
    assert found["wrong"] == {"x": {"0": 0, "1": 3}}
    assert found["times"]["x"]["bytes"] == 8
    assert found["facts"] == {"nccl": "2.28"}


def test_one_device_has_nobody_to_talk_to() -> None:
    assert deep_collectives.collectives([Accelerator("cpu")]) == {"ranks": 1}
    assert "RANK" not in os.environ
