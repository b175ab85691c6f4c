"""Composed steps of pipeline ranks: work, memory and transfers known by hand."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import pytest
from linear_stages import ROWS, WIDTH, stage_blocks

from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.program.pipeline.blocks import StageBlocks, read_blocks
from gpuscope.program.pipeline.compose import RankPlace, compose
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape, stage_of_rank
from gpuscope.program.pipeline.script import in_flight, scripts
from gpuscope.program.types import ProcessGroup, Program

TENSOR_BYTES = ROWS * WIDTH * 4
WEIGHT_BYTES = WIDTH * WIDTH * 4
LAYERS = 2


@lru_cache
def captured(stage: int, stages: int, ranks: int, split: bool) -> StageBlocks:
    return stage_blocks(stage, stages, ranks, layers=LAYERS, split=split)


def composed(shape: PipelineShape) -> list[Program]:
    group = ProcessGroup("0", "pp", tuple(range(shape.ranks)))
    out = []
    for rank in range(shape.ranks):
        stages = {
            s: captured(s, shape.stages, shape.ranks, shape.schedule in SPLIT)
            for s in stage_of_rank(shape, rank)
        }
        out.append(compose(stages, shape, RankPlace(rank, shape.ranks, group)))
    return out


SHAPES = [
    PipelineShape("gpipe", 3, 5),
    PipelineShape("1f1b", 3, 5),
    PipelineShape("interleaved", 2, 4, 2),
    PipelineShape("looped-bfs", 2, 4, 2),
    PipelineShape("zb", 3, 6),
    PipelineShape("zbv", 2, 4, 2),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_work_is_that_of_all_microbatches(shape: PipelineShape) -> None:
    """Each Linear: one product forward; two backward, one of them not needed for tokens."""
    for rank, program in enumerate(composed(shape)):
        stages = stage_of_rank(shape, rank)
        products = Counter(op.phase for op in program.ops if op.name == "aten::mm")
        layers = LAYERS * len(stages) * shape.microbatches
        unneeded = shape.microbatches * (0 in stages)
        assert products == {"forward": layers, "backward": 2 * layers - unneeded}
        added = [op for op in program.ops if op.name == "aten::add_"]
        assert len(added) == LAYERS * len(stages) * (shape.microbatches - 1)
        assert {op.phase for op in added} == {"backward"}
        assert [op.index for op in program.ops] == list(range(len(program.ops)))
        assert not any("mark" in op.name for op in program.ops)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_transfers_meet_their_peers(shape: PipelineShape) -> None:
    programs = composed(shape)
    seen: Counter[tuple[int, int]] = Counter()
    for rank, program in enumerate(programs):
        for op in program.ops:
            if op.peer < 0:
                continue
            assert program.groups[op.group].label == "pp"
            assert sum(spec.nbytes for spec in op.inputs) == TENSOR_BYTES
            if op.name == "c10d::send":
                seen[rank, op.peer] += 1
            else:
                seen[op.peer, rank] -= 1
    assert not any(seen.values())
    assert len(seen) == 2 * (shape.ranks - 1)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_memory_is_alive_where_it_is_used(shape: PipelineShape) -> None:
    for program in composed(shape):
        lives = {s.id: s for s in program.storages}
        assert len(lives) == len(program.storages)
        for op in program.ops:
            for spec in (*op.inputs, *op.outputs):
                life = lives[spec.storage]
                assert life.born <= op.index, (op, life)
                assert life.died is None or op.index < life.died, (op, life)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.schedule)
def test_activations_are_those_of_the_microbatches_in_flight(shape: PipelineShape) -> None:
    """A stage of two Linears keeps the first one's output, and its own output, which it sends
    (a last one the output that its loss needs, and the loss)."""
    for rank, program in enumerate(composed(shape)):
        turns = scripts(shape)[rank]
        kept = _peak(program, "activation")
        most = in_flight(turns) * LAYERS * TENSOR_BYTES
        if shape.schedule in SPLIT:  # what is sent on is freed before the backward of weights
            assert most / 2 <= kept <= most * 1.01
        else:
            assert kept == pytest.approx(most, rel=0.01)
        parameters = sum(s.nbytes for s in program.storages if s.category == "parameter")
        stages = len(stage_of_rank(shape, rank))
        assert parameters == stages * LAYERS * WEIGHT_BYTES
        assert _peak(program, "gradient") == parameters
        received = sum(1 for turn in turns if turn.kind == "recv")
        buffers = sum(s.nbytes for s in program.storages if s.category == "communication")
        assert buffers >= received * TENSOR_BYTES


def _peak(program: Program, category: str) -> int:
    change: Counter[int] = Counter()
    for storage in program.storages:
        if storage.category == category:
            change[max(storage.born, 0)] += storage.nbytes
            if storage.died is not None:
                change[storage.died] -= storage.nbytes
    held = most = 0
    for at in sorted(change):
        held += change[at]
        most = max(most, held)
    return most


def test_passes_wait_for_what_they_read() -> None:
    """The operator after a receive carries the wait, on the stream that it was issued from."""
    for program in composed(PipelineShape("1f1b", 3, 5))[1:]:
        received = {
            op.index: op.outputs[0].storage for op in program.ops if op.name == "c10d::recv_"
        }
        waited: set[int] = set()
        for op in program.ops:
            waited |= set(op.waits)
            if op.peer >= 0 or op.view:
                continue
            for spec in op.inputs:
                needed = [i for i, storage in received.items() if storage == spec.storage]
                assert set(needed) <= waited


def test_two_microbatches_are_what_was_captured() -> None:
    """Nothing is lost or made up: a pipeline of one stage and two microbatches is the capture."""
    blocks = stage_blocks(0, 1, 1, layers=3)
    group = ProcessGroup("0", "pp", (0,))
    program = compose({0: blocks}, PipelineShape("1f1b", 1, 2), RankPlace(0, 1, group))
    order = [op for op in blocks.program.ops if not op.name.endswith("::mark")]
    assert [(op.name, op.args, op.module) for op in program.ops] == [
        (op.name, op.args, op.module) for op in order
    ]
    assert [[s.shape for s in op.outputs] for op in program.ops] == [
        [s.shape for s in op.outputs] for op in order
    ]


def test_what_compose_refuses() -> None:
    place = RankPlace(0, 2, ProcessGroup("0", "pp", (0, 1)))
    with pytest.raises(InvalidValueError, match="stage 0 are missing"):
        compose({}, PipelineShape("1f1b", 2, 4), place)
    with pytest.raises(InvalidValueError, match="split"):
        compose({0: captured(0, 3, 3, False)}, PipelineShape("zb", 2, 4), place)
    with pytest.raises(WorkloadError, match="not a stage"):
        read_blocks(Program("x", ()))
