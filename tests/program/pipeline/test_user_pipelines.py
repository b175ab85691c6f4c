"""PyTorch's own schedules, run under the capture: every rank, its transfers, and what compose says.

The scripts are held against what `torch.distributed.pipelining` really issues, and composed steps
against captured ones, operator by operator.
"""

from __future__ import annotations

from functools import lru_cache

import pytest
from linear_stages import stage_blocks
from user_pipelines import ROWS, WIDTH, traced_build, user_build

from gpuscope.program.pipeline.compose import RankPlace, compose
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape, stage_of_rank
from gpuscope.program.pipeline.script import scripts
from gpuscope.program.ranks import capture_ranks
from gpuscope.program.types import ProcessGroup, Program
from gpuscope.program.world import RankPrograms, World

MICROBATCHES = 4
CASES = [
    ("gpipe", 1),
    ("1f1b", 1),
    ("interleaved", 2),
    ("looped-bfs", 2),
    ("zb", 1),
    ("zb", 2),
    ("zbv", 2),
]


@lru_cache
def captured(schedule: str, virtual: int) -> RankPrograms:
    return capture_ranks(user_build(schedule, MICROBATCHES, virtual), World(2))


@pytest.mark.parametrize(("schedule", "virtual"), CASES)
def test_scripts_are_what_pytorch_issues(schedule: str, virtual: int) -> None:
    """Same transfers in the same order, to the same peers, batched alike."""
    shape = PipelineShape(schedule, 2, MICROBATCHES, virtual)
    for program, turns in zip(captured(schedule, virtual).programs, scripts(shape), strict=True):
        issued = [
            (op.name, op.peer, op.args.get("batch") is not None)
            for op in program.ops
            if op.peer >= 0
        ]
        names = {"send": "c10d::send", "recv": "c10d::recv_"}
        said = [(names[t.kind], t.peer, t.batch >= 0) for t in turns if t.transfer]
        assert issued == said


@pytest.mark.parametrize(("schedule", "virtual"), CASES)
def test_composed_steps_do_what_captured_ones_do(schedule: str, virtual: int) -> None:
    """The same products in the same order between the same transfers, each after its receive."""
    shape = PipelineShape(schedule, 2, MICROBATCHES, virtual)
    group = ProcessGroup("0", "pp", (0, 1))
    for rank, program in enumerate(captured(schedule, virtual).programs):
        stages = {
            s: stage_blocks(s, shape.stages, 2, split=schedule in SPLIT)
            for s in stage_of_rank(shape, rank)
        }
        composed = compose(stages, shape, RankPlace(rank, 2, group))
        assert _skeleton(composed) == _skeleton(program)


def _skeleton(program: Program) -> list[tuple[object, ...]]:
    kept = [op for op in program.ops if op.name == "aten::mm" or op.peer >= 0]
    return [(op.name, op.peer, tuple(s.shape for s in op.outputs)) for op in kept]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_composed_first_stage_is_the_captured_one(schedule: str) -> None:
    """To the last operator that does work; passes wait for the same receives."""
    shape = PipelineShape(schedule, 2, MICROBATCHES)
    blocks = stage_blocks(0, 2, 2)
    composed = compose({0: blocks}, shape, RankPlace(0, 2, ProcessGroup("0", "pp", (0, 1))))
    assert _work(composed) == _work(captured(schedule, 1).programs[0])


def _work(program: Program) -> list[tuple[object, ...]]:
    return [
        (
            op.name,
            op.peer,
            tuple(s.shape for s in op.outputs),
            [
                program.ops[w].name
                for w in op.waits
                if op.peer < 0 and "recv" in program.ops[w].name
            ],
        )
        for op in program.ops
        if not op.view
    ]


def test_replicas_are_captured_once() -> None:
    """Four stages, two replicas: ranks of one stage are equal, and stand together."""
    ranks = capture_ranks(user_build("1f1b", MICROBATCHES, dp=2), World(8))
    assert ranks.members == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert [p.rank for p in ranks.programs] == [0, 2, 4, 6]
    assert {op.peer for op in ranks.programs[1].ops if op.peer >= 0} == {0, 4}


def test_known_shapes_give_the_same_step() -> None:
    """Stages that are told their shapes send none; the steady step is the same."""
    told = capture_ranks(user_build("1f1b", MICROBATCHES, shapes=True), World(2))
    for one, other in zip(told.programs, captured("1f1b", 1).programs, strict=True):
        assert _skeleton(one) == _skeleton(other)


def test_transfers_have_the_size_of_the_activations() -> None:
    for program in captured("1f1b", 1).programs:
        sizes = {s.nbytes for op in program.ops if op.peer >= 0 for s in op.inputs}
        assert sizes == {ROWS * WIDTH * 4}


@pytest.mark.parametrize("on_device", [True, False])
def test_a_traced_pipeline(on_device: bool) -> None:
    """`pipeline()` cuts a model by itself; here four Linears after the second."""
    ranks = capture_ranks(traced_build(MICROBATCHES, on_device=on_device), World(2))
    for program, peer in zip(ranks.programs, (1, 0), strict=True):
        transfers = [op for op in program.ops if op.peer >= 0]
        assert len(transfers) == 2 * MICROBATCHES
        assert {op.peer for op in transfers} == {peer}
        products = [op.name for op in program.ops if op.name in ("aten::mm", "aten::addmm")]
        # Two layers: forward, weights, inputs; tokens need no gradient.
        assert len(products) == MICROBATCHES * (6 - (program.rank == 0))
