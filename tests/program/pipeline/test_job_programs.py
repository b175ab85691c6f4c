"""Ready-made pipelines of decoders: stages cut, captured once each, every rank composed."""

from __future__ import annotations

from functools import lru_cache

import pytest
from program_equality import differences

from gpuscope.errors import InvalidValueError
from gpuscope.program.capture import capture
from gpuscope.program.models.parallel.options import Job, Parallelism, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.pipeline import job_programs
from gpuscope.program.pipeline.blocks import read_blocks
from gpuscope.program.pipeline.decoder_stages import cut_layers, stage_build
from gpuscope.program.pipeline.job_programs import capture_pipeline, rank_programs
from gpuscope.program.world import RankPrograms, World

SIZE = TransformerSize(
    layers=4, hidden=64, heads=4, kv_heads=4, head=16, ffn=128, vocabulary=256, context=64
)


def job(size: TransformerSize = SIZE, *, clip: bool = False, **plan: object) -> Job:
    chosen = {"pp": 2, "microbatches": 4, "fsdp": "zero1", **plan}
    return Job(
        size=size,
        plan=Parallelism(**chosen),
        software=Software(clip=clip),
        tokens=32,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [
        (80, 4, [20] * 4),
        (126, 16, [7, *[8] * 14, 7]),
        (61, 16, [3, *[4] * 14, 2]),
        (5, 4, [2, 1, 1, 1]),
        (4, 4, [1] * 4),
    ],
)
def test_layers_are_cut(layers: int, stages: int, counts: list[int]) -> None:
    cut = cut_layers(layers, stages)
    assert sum(len(stage.layers) for stage in cut) == layers
    assert [i for stage in cut for i in stage.layers] == list(range(layers))
    if (layers, stages) != (61, 16):
        assert [len(stage.layers) for stage in cut] == counts
    assert [s.first for s in cut] == [True, *[False] * (stages - 1)]
    assert [s.last for s in cut] == [*[False] * (stages - 1), True]


def test_more_stages_than_layers() -> None:
    with pytest.raises(InvalidValueError, match="cannot be cut"):
        cut_layers(3, 4)


def test_parameters_of_all_ranks_are_those_of_the_model() -> None:
    ranks = plain()
    assert sum(p.parameters for p in ranks.programs) == SIZE.parameters
    assert ranks.members == ((0,), (1,))
    assert ranks.programs[0].tokens == 4 * 32


def test_equal_stages_are_captured_once() -> None:
    blocks = capture_pipeline(job(SIZE.deep(5), pp=5, microbatches=5))
    assert len({id(b) for b in blocks.stages.values()}) == 3
    program = blocks.program(3)
    assert {op.peer for op in program.ops if op.peer >= 0} == {2, 4}


def test_a_stage_knows_neither_the_number_of_microbatches_nor_an_unsplit_schedule() -> None:
    few, many = (capture_pipeline(job(microbatches=n)).stages for n in (4, 6))
    assert all(few[stage] is many[stage] for stage in few)
    gpipe = capture_pipeline(job(schedule="gpipe")).stages
    assert gpipe[0] is few[0]
    split = capture_pipeline(job(schedule="zb")).stages  # its backward pass is another
    assert split[0] is not few[0]


def test_ranks_of_other_dimensions_stand_together() -> None:
    """dp 2 x tp 2 x pp 2: rank = stage * 4 + replica * 2 + shard; groups move with the rank."""
    blocks = capture_pipeline(job(SIZE.deep(2), dp=2, tp=2))
    ranks = blocks.programs()
    assert ranks.members == ((0, 1, 2, 3), (4, 5, 6, 7))
    for program, tp in zip(ranks.programs, ((0, 1), (4, 5)), strict=True):
        assert tp in {group.ranks for group in program.groups if group.label == "tp"}
        assert all(program.rank in group.ranks for group in program.groups)
        hidden = 32 // 2 * SIZE.hidden * 2
        sizes = {s.nbytes for op in program.ops if op.peer >= 0 for s in op.inputs}
        assert sizes == {hidden}


@lru_cache
def plain() -> RankPrograms:
    """The plain job on two ranks."""
    return rank_programs(job())


@pytest.mark.parametrize(("schedule", "virtual"), [("interleaved", 2), ("zb", 1), ("gpipe", 1)])
def test_other_schedules(schedule: str, virtual: int) -> None:
    ranks = rank_programs(job(schedule=schedule, virtual=virtual))
    products = [sum(op.name == "aten::mm" for op in p.ops) for p in ranks.programs]
    usual = [sum(op.name == "aten::mm" for op in p.ops) for p in plain().programs]
    assert sum(products) == sum(usual)


def test_the_norm_is_summed_over_the_stages() -> None:
    for program in rank_programs(job(SIZE.deep(2), clip=True)).programs:
        summed = [
            op
            for op in program.ops
            if op.group >= 0 and "allreduce" in op.name and program.groups[op.group].size == 2
        ]
        assert [program.groups[op.group].label for op in summed] == ["pp"]


def test_deep_stages_are_folded_exactly() -> None:
    """A stage of 11 layers, captured by way of a few, has the blocks of one captured whole."""
    deep = job(SIZE.deep(22))
    learnt = job_programs._Learnt()
    program = job_programs._capture_stage(deep, 0, (False,) * 11, World(2), False, learnt)
    folded = read_blocks(program)
    whole = read_blocks(capture(stage_build(deep, 0), task="train", world=World(2)))
    assert folded.spans == whole.spans
    names = [[op.name for op in blocks.program.ops] for blocks in (folded, whole)]
    assert names[0] == names[1]
    lives = [
        sorted((s.nbytes, s.category, s.born, s.died or -1) for s in blocks.program.storages)
        for blocks in (folded, whole)
    ]
    assert lives[0] == lives[1]


def test_a_stage_whose_weights_gradients_come_later_is_folded_exactly() -> None:
    """Its engine looks at every parameter outside of the layers, and sums gradients upwards."""
    deep, world = job(SIZE.deep(22), dp=2, schedule="zb"), World(4, 0, 8)
    whole = capture(stage_build(deep, 1), task="train", world=world)
    learnt = job_programs._Learnt()
    folded = job_programs._capture_stage(deep, 1, (False,) * 11, world, False, learnt)
    assert learnt._replay is None, "it was captured whole"
    assert [op.name for op in folded.ops] == [op.name for op in whole.ops]
    assert not differences(folded, whole)


def test_long_jobs_have_one_operator_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plain()
    monkeypatch.setattr(job_programs, "LONG", 100)
    brief = rank_programs(job())
    assert whole.pipeline is None
    assert brief.pipeline is not None
    assert brief.members == whole.members
    for few, many in zip(brief.programs, whole.programs, strict=True):
        transfers = [[(op.name, op.peer) for op in p.ops if op.peer >= 0] for p in (few, many)]
        assert transfers[0] == transfers[1]
        assert few.parameters == many.parameters
