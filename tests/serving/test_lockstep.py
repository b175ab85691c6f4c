"""Attention in data parallel: ranks with queues of their own, experts in common, in step."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fresh import asked, bare, joint, limits, served

import gpuscope as gs
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.serving.engine import engine
from gpuscope.serving.fleet import replica_for, serve_all
from gpuscope.serving.iteration import iteration_cost
from gpuscope.serving.lockstep import Lockstep
from gpuscope.serving.memory import kv_memory, weights_bytes
from gpuscope.serving.quantization import quantization
from gpuscope.serving.record import Record
from gpuscope.serving.simulate import deploy
from gpuscope.serving.work import Work

HOUSE = parse_target("8xh200")
KEPT = quantization("fp8_block", HOUSE.device)
DEEPSEEK = find("deepseek-v3").size()  # type: ignore[misc]
SOME = asked([0.001 * at**1.5 for at in range(40)], [90] * 40, [30, 7, 50, 11] * 10)


def in_step(ranks: int, requests=SOME, **more: object) -> tuple[Record, list[Record]]:  # type: ignore[no-untyped-def]
    record, rows, _ = serve_all(requests, bare(**more), limits(), joint(ranks), route="least-load")
    return record, rows


@pytest.mark.parametrize("overlapped", [False, True])
def test_one_rank_in_step_is_a_replica(overlapped: bool) -> None:
    how, cost = bare(overlapped=overlapped, token_s=1e-4), joint(1)
    alone = served(SOME, how, limits(), cost.device_s)
    work = Work(SOME, how, limits())
    one = Lockstep([replica_for(work, how, limits(), cost.device_s, Record(0))], cost)
    left = list(zip(SOME.arrival_s.tolist(), range(len(SOME)), strict=True))
    while left or one.busy:
        if one.busy and (not left or one.now < left[0][0]):
            one.step(left[0][0] if left else float("inf"))
            one.take_ended()
        else:
            at, each = left.pop(0)
            one.ranks[0].join(each, at, at)
    for name in ("started", "first", "finished", "behind", "device"):
        assert work.record.column(name) == pytest.approx(alone.column(name), abs=1e-12)


def test_iterations_begin_and_last_alike_on_all_ranks() -> None:
    record, rows = in_step(3)
    begun = [np.asarray(each.rows[0]) for each in rows]
    steps = [np.asarray(each.rows[1]) for each in rows]
    assert all((each == begun[0]).all() for each in begun)
    assert all((each == steps[0]).all() for each in steps)
    assert np.isfinite(record.column("finished")).all()


def test_a_prompt_on_one_rank_holds_up_what_decodes_on_another() -> None:
    requests = asked([0.0, 0.02], [10, 2000], [100, 2])
    record, rows = in_step(2, requests)
    prompt = joint(2).together_s([(2000, 2000 * 2001 / 2, 1, 0, 0.0), (0, 0.0, 0, 1, 30.0)])
    gaps = np.diff(np.asarray(rows[0].rows[0]))
    assert gaps.max() > 0.9 * prompt
    assert record.column("behind")[0] > 0.8 * prompt
    assert sum(row[4] for row in rows[0].each()) in (10, 2000)  # one prompt each


def test_ranks_without_work_run_along_and_all_rest_together() -> None:
    requests = asked([0.0, 1.0], [10, 10], [5, 5])
    _, rows = in_step(2, requests)
    idle = [row for row in rows[1].each() if not (row[4] or row[5])]
    assert idle
    assert all(row[2] > 0 for row in idle)
    begun = np.asarray(rows[0].rows[0])
    assert not ((begun > 0.1) & (begun < 1.0)).any()


def test_the_slowest_rank_and_all_tokens_set_the_time() -> None:
    cost = joint(2)
    batches = [(100, 5050.0, 1, 3, 900.0), (0, 0.0, 0, 7, 7000.0)]
    slowest = 1e-3 + 2e-5 * 103 + 5050e-9 + 2e-8 * 900
    assert cost.together_s(batches) == pytest.approx(slowest + 3e-5 * 110)
    # Where all fit a graph each runs as the largest, one without work included.
    padded = joint(2, graph_sizes=(1, 8, 16)).together_s(
        [(0, 0.0, 0, 9, 2700.0), (0, 0.0, 0, 0, 0.0)]
    )
    assert padded == pytest.approx(1e-3 + 2e-5 * 16 + 2e-8 * 2700 + 3e-5 * 32)


def test_each_group_has_all_but_its_part_of_the_experts() -> None:
    routed = DEEPSEEK.routed_parameters
    assert routed == 58 * 256 * 3 * 7168 * 2048
    whole, apart = (weights_bytes(DEEPSEEK, KEPT, 8, dp) for dp in (1, 8))
    assert apart - whole == pytest.approx(
        7 / 8 * (8 * whole - routed * KEPT.weight_bytes), rel=1e-6
    )
    both = [kv_memory(DEEPSEEK, KEPT, HOUSE.device, tp=8, dp=dp, utilization=0.92) for dp in (1, 8)]
    assert both[0].token_bytes == both[1].token_bytes  # a latent is whole on every rank
    assert 0.5 * both[0].blocks < both[1].blocks < both[0].blocks


def test_heads_are_cut_within_a_group_alone() -> None:
    size = find("qwen3-30b-a3b").size
    assert size is not None
    halves = [kv_memory(size(), quantization("bf16", HOUSE.device), HOUSE.device, tp=4, dp=dp)
              for dp in (1, 2, 4)]  # fmt: skip
    assert [each.token_bytes / halves[0].token_bytes for each in halves] == [1, 2, 4]


def test_experts_and_the_way_there_are_priced_by_all_tokens() -> None:
    apart = iteration_cost(DEEPSEEK, KEPT, HOUSE, 8, 8, 2.0, None, 8)
    whole = iteration_cost(DEEPSEEK, KEPT, HOUSE, 8, 8)
    assert apart.ranks == 8
    assert apart.link_s(64) == 0.0  # a group is one device
    assert whole.link_s(64) > 0.0
    assert apart.joint_s(4096) > apart.joint_s(64) > 0.0
    # A full house is what it is for: each rank reads its own sequences' latents alone.
    full = apart.together_s([(0, 0.0, 0, 64, 64 * 4096.0)] * 8)
    assert full < 0.7 * whole.device_s(0, 0.0, 0, 512, 512 * 4096.0)


def test_limits_of_an_engine_whose_ranks_share_them() -> None:
    for name, tokens in (("sglang", 1024), ("vllm", 8192)):
        found = deploy("d", DEEPSEEK, HOUSE, engine(name), dtype="fp8_block", ep=8, dp=8)
        assert found.limits.max_tokens == tokens
        assert found.router == engine(name).rank_router
        assert found.ranks == 8


def test_served_from_the_front() -> None:
    asks = {"dtype": "fp8_block", "tp": 4, "ep": 4, "requests": 60, "input": 200, "output": 20}
    run = gs.serve("qwen3-30b-a3b", "8xh100", attention_dp=4, rate=20.0, **asks)[0]
    assert run.settings["attention_dp"] == 4
    assert set(run.served.replica.tolist()) <= set(range(8))
    assert set(run.iterations.replica.tolist()) == set(range(8))
    assert (run.served.finished_s > run.served.first_token_s).all()
    apart = gs.serve(
        "qwen3-30b-a3b", prefill="4xh100", decode="4xh100", attention_dp=2, rate=20.0, **asks
    )[0]
    assert run.energy_j
    assert apart.energy_j
    assert apart.served.replica.min() >= 2


@pytest.mark.parametrize(
    ("model", "how", "said"),
    [
        ("llama-3.1-8b", {"attention_dp": 2}, "no experts to share.*--tp 4 --replicas 2"),
        ("qwen3-30b-a3b", {"attention_dp": 3}, "does not divide --tp 8.*1, 2, 4, 8"),
        ("qwen3-30b-a3b", {"attention_dp": 0}, "attention_dp cannot be 0"),
        ("qwen3-30b-a3b", {"attention_dp": 2, "engine": "static"}, "no attention in data parallel"),
        ("qwen3-30b-a3b", {"attention_dp": 2, "speculate": "k=3,accept=0.7"}, "not modelled"),
    ],
)
def test_what_cannot_be_is_refused(model: str, how: dict[str, object], said: str) -> None:
    with pytest.raises(GpuscopeError) as caught:
        gs.serve(model, "8xh100", rate=1.0, **how)  # type: ignore[arg-type]
    assert re.search(said, str(caught.value).replace("\n", " "))
