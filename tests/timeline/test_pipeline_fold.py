"""Folded pipelines keep the time and the memory that they have operator by operator."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from gpuscope.cost.engine import cost_program
from gpuscope.cost.types import CostedProgram
from gpuscope.hardware import calibration_for, parse_target
from gpuscope.program.pipeline.job_programs import PipelineBlocks
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape, bubble_fraction
from gpuscope.program.types import Program
from gpuscope.timeline import simulate_memory
from gpuscope.timeline.pipeline_anew import ranks_anew
from gpuscope.timeline.pipeline_fold import fold_ranks
from gpuscope.timeline.simulate_ranks import simulate_ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "program" / "pipeline"))
from linear_stages import stage_blocks

CLUSTER = parse_target("8xh100")
WIDE = {"width": 4096, "rows": 4096}
SMALL = {"width": 64, "rows": 32}


def cost(program: Program) -> CostedProgram:
    return cost_program(program, CLUSTER.device, cluster=CLUSTER)


@lru_cache
def pipeline(shape: PipelineShape, width: int, rows: int) -> PipelineBlocks:
    split = shape.schedule in SPLIT
    made = {
        where: stage_blocks(where, shape.stages, shape.ranks, split=split, width=width, rows=rows)
        for where in (0, 1, shape.stages - 1)
    }
    stages = {s: made[s if s in (0, shape.stages - 1) else 1] for s in range(shape.stages)}
    return PipelineBlocks(shape, stages, shape.ranks)


SHAPES = [
    PipelineShape("gpipe", 3, 6),
    PipelineShape("1f1b", 4, 8),
    PipelineShape("interleaved", 2, 4, 2),
    PipelineShape("zb", 3, 6),
]


@pytest.mark.parametrize("sizes", [WIDE, SMALL], ids=["device-bound", "host-bound"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_time_is_that_of_all_operators(shape: PipelineShape, sizes: dict[str, int]) -> None:
    blocks = pipeline(shape, **sizes)
    folded = fold_ranks(blocks, cost)
    whole = [cost(program) for program in blocks.programs().programs]
    few = simulate_ranks(folded, blocks.members)
    many = simulate_ranks(whole, blocks.members)
    assert few.step_time_s == pytest.approx(many.step_time_s, rel=0.02)
    assert sum(len(c.ops) for c in folded) < 0.75 * sum(len(c.ops) for c in whole)
    for one, other in zip(few.ranks, many.ranks, strict=True):
        assert one.host_busy_s == pytest.approx(other.host_busy_s, rel=0.02)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_work_is_that_of_all_operators(shape: PipelineShape) -> None:
    blocks = pipeline(shape, **WIDE)
    for few, program in zip(fold_ranks(blocks, cost), blocks.programs().programs, strict=True):
        many = cost(program)
        assert _sum(few, "flops") == pytest.approx(_sum(many, "flops"))
        assert _sum(few, "least_bytes") == pytest.approx(_sum(many, "least_bytes"))


def _sum(costed: CostedProgram, name: str) -> float:
    return sum(getattr(k, name) for item in costed.ops for k in item.kernels)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_memory_is_that_of_all_operators(shape: PipelineShape) -> None:
    blocks = pipeline(shape, **WIDE)
    for few, program in zip(fold_ranks(blocks, cost), blocks.programs().programs, strict=True):
        one, other = simulate_memory(few.program), simulate_memory(program)
        assert one.peak_allocated_bytes == pytest.approx(other.peak_allocated_bytes, rel=0.005)
        held, wanted = dict(one.at_peak), dict(other.at_peak)
        for category in ("parameter", "gradient", "optimizer_state", "communication"):
            assert held.get(category, 0) == wanted.get(category, 0)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_bubble_of_equal_stages(schedule: str) -> None:
    """Four equal stages, eight microbatches: three of eleven slots are idle.

    The first stage has one product less, transfers and optimizer come on top: 5 % are allowed.
    """
    shape = PipelineShape(schedule, 4, 8)
    blocks = pipeline(shape, 8192, 8192)
    folded = fold_ranks(blocks, cost)
    step_s = simulate_ranks(folded, blocks.members).step_time_s
    working_s = sum(k.duration_s for i in folded[1].ops for k in i.kernels if k.lane != "link")
    expected = bubble_fraction(shape)
    assert expected == pytest.approx(3 / 11)
    assert 1 - working_s / step_s == pytest.approx(expected, abs=0.05)


def test_many_microbatches_cost_little() -> None:
    """Eight ranks, 64 microbatches: half a second, where operators would be tens of thousands."""
    shape = PipelineShape("1f1b", 8, 64)
    blocks = pipeline(shape, **WIDE)
    folded = fold_ranks(blocks, cost)
    assert max(len(c.ops) for c in folded) < 64 * 20
    assert simulate_ranks(folded, blocks.members).step_time_s > 0


def test_long_jobs_are_costed_by_their_blocks() -> None:
    """`ranks_anew` gives the step that the whole programs have, libraries' memory included."""
    blocks = pipeline(PipelineShape("1f1b", 4, 8), **WIDE)
    constants = calibration_for(CLUSTER.device)
    whole = blocks.programs()
    brief = replace(blocks.brief().programs(), pipeline=blocks)
    few, many = (ranks_anew(p, CLUSTER.device, constants, CLUSTER) for p in (brief, whole))
    steps = [
        simulate_ranks([made.costed for made in each], blocks.members).step_time_s
        for each in (few, many)
    ]
    assert steps[0] == pytest.approx(steps[1], rel=0.02)
    for one, other in zip(few, many, strict=True):
        peaks = [simulate_memory(made.program).peak_allocated_bytes for made in (one, other)]
        assert peaks[0] == pytest.approx(peaks[1], rel=0.01)
