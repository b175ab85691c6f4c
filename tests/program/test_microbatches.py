"""A step without its second micro-batch is the one that would be recorded with one less."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import pytest

from gpuscope.capturing import capture_job
from gpuscope.hardware import parse_target
from gpuscope.program.microbatches import without_second
from gpuscope.program.models.parallel.options import ParallelOptions, Sharding
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
from made import asked


@lru_cache
def recorded(fsdp: Sharding, microbatches: int) -> Program:
    plan = ParallelOptions(world=2, fsdp=fsdp, microbatch=1, global_batch=2 * microbatches)
    options = WorkloadOptions(task="train", seq=64, parallel=plan)
    found = capture_job(asked(model="gpt2").size.deep(2), parse_target("2xh200"), options)
    return found.programs[0] if isinstance(found, RankPrograms) else found


@pytest.mark.parametrize(("fsdp", "count"), [("full", 2), ("zero1", 3), ("none", 3)])
def test_it_is_the_step_with_one_less(fsdp: Sharding, count: int) -> None:
    made = without_second(recorded(fsdp, count))
    assert made is not None
    real = recorded(fsdp, count - 1)
    mine = [(op.name, op.phase, tuple(s.shape for s in op.inputs)) for op in made.ops]
    theirs = [(op.name, op.phase, tuple(s.shape for s in op.inputs)) for op in real.ops]
    # But for the losses of several, which are stacked and summed.
    both = set(map(repr, mine)) & set(map(repr, theirs))
    assert [each for each in mine if repr(each) in both] == [
        each for each in theirs if repr(each) in both
    ]
    assert abs(len(mine) - len(theirs)) <= 4
    assert [op.index for op in made.ops] == list(range(len(made.ops)))
    assert all(wait < op.index for op in made.ops for wait in op.waits)
    for storage in made.storages:
        assert -1 <= storage.born < len(made.ops)
        assert storage.died is None or storage.died <= len(made.ops)


def test_there_is_no_second() -> None:
    assert without_second(recorded("full", 1)) is None
