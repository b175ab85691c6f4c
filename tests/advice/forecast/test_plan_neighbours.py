"""Tests of `forecast.plan_neighbours`: each neighbour is possible and does the same work."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from gpuscope.advice.forecast.plan_neighbours import neighbours
from gpuscope.document.text import render
from gpuscope.hardware import parse_target
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.registry import find
from gpuscope.program.workload import WorkloadOptions


def _found(**parallel: object) -> dict[str, ParallelOptions]:
    options = WorkloadOptions(seq=4096, parallel=ParallelOptions(**parallel))  # type: ignore[arg-type]
    cluster = parse_target("64xh200")
    found = neighbours(options, cluster, find("llama-3.1-8b").size())  # type: ignore[misc]
    assert len({name for name, _, _ in found}) == len(found)
    assert all(words and render(words, "zh") for _, words, _ in found)
    return {name: made.parallel for name, _, made in found if made.parallel is not None}


def test_ranks_and_batch_stay() -> None:
    size = find("llama-3.1-8b").size()  # type: ignore[misc]
    for asked in ({"tp": 4, "global_batch": 64}, {"tp": 2, "pp": 4, "global_batch": 128}):
        found = _found(**asked)
        assert len(found) > 6
        for other in found.values():
            plan = plan_of(size, 4096, other)
            assert plan.world_size == 64
            assert plan.global_batch == asked["global_batch"]


def test_what_is_expected_of_a_tensor_parallel_plan_is_there() -> None:
    found = _found(tp=4, global_batch=64)
    assert {"plan:tp-2", "plan:tp-8", "plan:recompute-full", "plan:no-sequence-parallel"} <= set(
        found
    )
    assert found["plan:tp-8"].dp == 8
    assert "plan:schedule-gpipe" not in found


def test_tensor_parallelism_stays_within_a_node() -> None:
    assert "plan:tp-16" not in _found(tp=8, global_batch=64)


def test_without_a_parallel_job_there_are_none() -> None:
    size = find("llama-3.1-8b").size()  # type: ignore[misc]
    assert neighbours(WorkloadOptions(), parse_target("8xh200"), size) == []
