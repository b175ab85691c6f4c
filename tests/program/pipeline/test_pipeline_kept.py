"""Parameters that FSDP keeps between passes are there once, not once for each microbatch."""

from __future__ import annotations

import pytest

from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.pipeline.kept import merge_kept
from gpuscope.program.types import Op, Program, Storage, TensorSpec
from gpuscope.program.workload import WorkloadOptions


def _touch(index: int, storage: int) -> Op:
    return Op(index, "aten::mm", inputs=(TensorSpec((4,), (1,), "float32", storage=storage),))


SPANS = {
    ("forward", 0): (0, 1),
    ("backward", 0): (1, 2),
    ("forward", 1): (2, 3),
    ("backward", 1): (3, 4),
    ("reduce", -1): (4, 5),
}


def test_the_two_copies_become_one_that_lives_as_long_as_the_second() -> None:
    ops = tuple(_touch(i, storage) for i, storage in enumerate((0, 1, 1, 2, 2)))
    storages = (
        Storage(0, 16, "communication", 0, 1, "block", "unsharded"),
        Storage(1, 16, "communication", 1, 3, "block", "unsharded"),
        Storage(2, 16, "communication", 3, 5, "block", "unsharded"),
    )
    merged = merge_kept(Program("stage", ops, storages), SPANS)
    assert [(s.id, s.born, s.died) for s in merged.storages] == [(0, 0, 1), (1, 1, 5)]
    assert [op.inputs[0].storage for op in merged.ops] == [0, 1, 1, 1, 1]


def test_what_dies_alike_for_both_stays_apart() -> None:
    ops = tuple(_touch(i, storage) for i, storage in enumerate((0, 0, 1, 1, 2)))
    storages = (
        Storage(0, 16, "communication", 0, 2, "block", "unsharded"),
        Storage(1, 16, "communication", 2, 4, "block", "unsharded"),
    )
    program = Program("stage", ops, storages)
    assert merge_kept(program, SPANS) is program


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_more_microbatches_gather_no_more_memory(schedule: str) -> None:
    """Whole parameters are kept once: their bytes do not grow with the microbatches."""
    import gpuscope as gs

    held = []
    for batch in (8, 16):
        options = WorkloadOptions(
            task="train",
            seq=512,
            layers=2,
            parallel=ParallelOptions(pp=2, microbatch=1, global_batch=batch, schedule=schedule),
        )
        run = gs.predict("llama-3.2-1b", on="4xh100", options=options)
        story = run.analysis.memory
        assert story is not None
        held.append(story.at_peak.get("communication", 0))
    assert held[1] <= held[0] * 1.05
