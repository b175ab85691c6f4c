"""A long pipeline's ranks: folded once a stage, their energy that of their work in its order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_pipeline_fold import CLUSTER, SHAPES, WIDE, cost, pipeline

from gpuscope.cost.power import step_energy
from gpuscope.hardware import calibration_for
from gpuscope.program.pipeline.orders import PipelineShape
from gpuscope.timeline.pipeline_anew import ranks_anew
from gpuscope.timeline.pipeline_fold import fold_ranks

CONSTANTS = calibration_for(CLUSTER.device)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_energy_is_that_of_work_in_its_order(shape: PipelineShape) -> None:
    """At the full clock each block counts as often as it runs, what a step pays once once."""
    blocks = pipeline(shape, **WIDE)
    brief = replace(blocks.brief().programs(), pipeline=blocks)
    made = ranks_anew(brief, CLUSTER.device, CONSTANTS, CLUSTER)
    for one, other in zip(made, fold_ranks(blocks, cost), strict=True):
        short = step_energy(one.alone, CLUSTER.device, CONSTANTS, 1.0)
        long = step_energy(other, CLUSTER.device, CONSTANTS, 1.0)
        assert short is not None
        assert long is not None
        assert short.total_j == pytest.approx(long.total_j, rel=1e-9)
        hosts = [
            sum((i.host.before_s + i.host.after_s) * i.op.repeat for i in each.ops)
            for each in (one.alone, other)
        ]
        assert hosts[0] == pytest.approx(hosts[1], rel=1e-9)
        assert len(one.alone.ops) < len(other.ops)


def test_a_stage_is_costed_once_for_all_numbers_of_microbatches() -> None:
    """What a planner asks of one job twice costs its blocks once: the very same kernels."""
    found = []
    for count in (8, 12):
        blocks = pipeline(PipelineShape("1f1b", 4, 8), **WIDE)
        blocks = replace(blocks, shape=replace(blocks.shape, microbatches=count))
        brief = replace(blocks.brief().programs(), pipeline=blocks)
        made = ranks_anew(brief, CLUSTER.device, CONSTANTS, CLUSTER)
        found.append({id(k.tile) for i in made[1].alone.ops for k in i.kernels if k.lane != "link"})
    assert found[0] == found[1]
