"""Layers in stages: batches follow each other, queue and blocks are common."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fresh import asked, bare, joint, limits

import gpuscope as gs
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.serving.engine import engine
from gpuscope.serving.fleet import serve_all
from gpuscope.serving.iteration import Curve, IterationCost, Stages, stage_layers
from gpuscope.serving.record import SUMS, Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Limits
from gpuscope.serving.simulate import deploy

SOME = asked([0.001 * at**1.5 for at in range(40)], [90] * 40, [30, 7, 50, 11] * 10)
STEP_S = 1e-3
"""Of any batch of `flat`."""


def staged(layers: tuple[int, ...], hop_s: float = 0.0) -> IterationCost:
    return joint(1, stages=Stages(layers, Curve((0.0, 1.0), (hop_s, hop_s))))


def flat(stages: int, hop_s: float = 0.0) -> IterationCost:
    """Whatever a batch holds, each stage takes 1 ms over their number."""
    none = Curve((0.0, 1.0), (0.0, 0.0))
    made = staged((1,) * stages, hop_s)
    return IterationCost(
        Curve((0.0, 1.0), (STEP_S, STEP_S)), none, none, none, (none,) * len(made.decode),
        stages=made.stages,
    )  # fmt: skip


def through(
    requests: Requests, cost: IterationCost, room: Limits | None = None, **more: object
) -> tuple[Record, list[Record]]:
    record, rows, _ = serve_all(requests, bare(**more), room or limits(), cost)
    return record, rows


@pytest.mark.parametrize("host_s", [0.0, 7e-4])
def test_one_stage_is_a_replica_whose_host_and_device_take_turns(host_s: float) -> None:
    cost = joint(1)
    how = {"host_s": host_s, "serial_s": 1e-4, "token_s": 1e-5, "accept_s": 1e-3}
    alone, _, _ = serve_all(SOME, bare(**how), limits(), cost.device_s)
    one, _ = through(SOME, staged((5,)), **how)
    for name in ("started", "first", "finished", *SUMS):
        assert one.column(name) == pytest.approx(alone.column(name), abs=1e-9)


def test_a_lone_request_passes_every_stage() -> None:
    record, _ = through(asked([0.0], [100], [11]), flat(4, hop_s=1e-4))
    step = STEP_S + 3 * 1e-4
    assert record.column("first")[0] == pytest.approx(step)
    assert record.column("finished")[0] == pytest.approx(11 * step)


def test_as_many_batches_as_stages_decode_as_fast_as_one() -> None:
    """Four requests a quarter of a step apart are four batches, none of which waits."""
    times = [at * STEP_S / 4 for at in range(4)]
    record, rows = through(asked(times, [10] * 4, [100] * 4), flat(4))
    assert record.column("finished") - times == pytest.approx(100 * STEP_S)
    assert all(sum(row[5] for row in one.each()) == 99 for one in rows)


def test_the_slowest_stage_sets_the_pace() -> None:
    """Of 3 + 1 layers two batches take turns in three quarters of a step."""
    record, _ = through(asked([0.0, 1e-5], [10] * 2, [201] * 2), staged((3, 1)))
    lone, _ = through(asked([0.0], [10], [201]), staged((3, 1)))
    both, alone = record.column("finished").max(), lone.column("finished")[0]
    assert both / alone == pytest.approx(1.5, rel=0.05)


def test_parts_of_a_long_prompt_follow_each_other() -> None:
    """Eight parts through four stages: the last begins seven stages after the first."""
    record, _ = through(asked([0.0], [800], [1]), flat(4), limits(tokens=100))
    assert record.column("first")[0] == pytest.approx((8 + 3) / 4 * STEP_S)
    assert record.column("prefill")[0] == pytest.approx((8 + 3) / 4 * STEP_S)


def test_a_time_is_what_its_causes_are() -> None:
    tight = limits(60, 24, 200)
    record, rows = through(SOME, staged((2, 3, 2)), tight, host_s=2e-4)
    assert record.column("preemptions").sum() > 0
    causes = record.column("started") - record.column("intended")
    causes = causes + sum(record.column(name) for name in SUMS)
    spent = record.column("finished") - record.column("intended")
    calm = record.column("preemptions") == 0
    assert causes[calm] == pytest.approx(spent[calm], rel=0.02, abs=2e-3)
    assert max(row[6] for one in rows for row in one.each()) <= 60


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_every_engine_has_stages(name: str) -> None:
    record, _, _ = serve_all(SOME, bare(name), limits(40, 12, 150), staged((1, 1, 1)), replicas=2)
    assert np.isfinite(record.column("finished")).all()


def test_layers_that_do_not_divide_go_before_the_last() -> None:
    assert stage_layers(32, 4) == (8, 8, 8, 8)
    assert stage_layers(61, 4) == (15, 15, 16, 15)
    assert stage_layers(6, 4) == (1, 2, 2, 1)


def test_a_stage_holds_its_layers_and_one_end() -> None:
    size = find("llama-3.1-70b").size()  # type: ignore[misc]
    pair = parse_target("2xh200")
    found = deploy("m", size, pair, engine("vllm"), tp=1, pp=2)
    ends = size.vocabulary * size.hidden
    layer = (size.parameters - 2 * ends) / 80
    assert found.memory.weights_bytes == pytest.approx(2 * (ends + 40 * layer), rel=1e-3)
    assert found.memory.token_bytes == 40 * 2 * 8 * 128 * 2
    assert found.cost.stages is not None
    assert 5e-6 < found.cost.stages.hop_s(1) < found.cost.stages.hop_s(8192) < 3e-3


def test_served_from_the_front() -> None:
    how = {"input": 200, "output": 20, "requests": 60, "rate": 20.0}
    run = gs.serve("llama-3.1-8b", "8xh100", tp=2, pp=2, **how)[0]
    one = gs.serve("llama-3.1-8b", "4xh100", tp=2, pp=1, **how)[0]
    assert run.settings["pp"] == 2
    assert run.settings["replicas"] == 2
    assert set(run.iterations.replica.tolist()) <= set(range(4))
    assert run.kv_blocks > 2 * one.kv_blocks  # half the layers, half the weights
    assert run.energy_j


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"pp": 0}, "pp cannot be 0"),
        ({"pp": 64, "tp": 1, "on": "64xh100"}, "32 layers of llama-3.1-8b do not fill 64 stages"),
        ({"pp": 2, "tp": 8}, "16 devices are needed"),
        ({"pp": 2, "engine": "static"}, "has no stages"),
        ({"pp": 2, "speculate": "k=3,accept=0.7"}, "not modelled"),
        ({"pp": 2, "tp": 1, "prefill": "2xh100", "decode": "2xh100"}, "not modelled"),
    ],
)
def test_what_cannot_be_is_refused(how: dict[str, object], said: str) -> None:
    with pytest.raises(GpuscopeError) as caught:
        gs.serve("llama-3.1-8b", **{"on": "8xh100", "rate": 1.0, **how})  # type: ignore[arg-type]
    assert re.search(said, str(caught.value).replace("\n", " "))
