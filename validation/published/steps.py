"""The time of a row's step; many microbatches from few.

Equal microbatches follow each other: a step of m takes t(a) + (m - a) (t(b) - t(a)) / (b - a)
once a is so many that its first and last differ from those between, which are alike. Without a
pipeline a is one. A pipeline of p ranks is full from p microbatches on: of Llama 3 405B and Qwen3
235B every further p take the same time within 1e-4. Ends of the interval follow lines of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from published.captures import pipeline_of, step_of
from published.stacks import stacks

if TYPE_CHECKING:
    from gpuscope.program.pipeline.job_programs import PipelineBlocks
    from gpuscope.program.types import Program
    from gpuscope.program.world import RankPrograms
    from published.express import Expressed

Times = tuple[float, float, float]
"""A step and its 80 % interval, in seconds."""

MANY = 3
"""Microbatches a pipeline rank from which on few are simulated: one and two a rank."""


def step_s(made: Expressed) -> Times:
    """Step time and 80 % interval of kernels, in seconds, with what ranks wait for each other.

    Raises:
        GpuscopeError: it cannot be captured, or its device cannot run it.
    """
    from gpuscope.cost.skew import DEVICE_BOUND, waiting

    plan = made.options.parallel
    if plan is not None and (plan.pp or 1) > 1:
        found = _pipeline_s(made, microbatches(made), plan.pp or 1)
    else:
        found = _in_turn_s(made, microbatches(made))
    if made.devices == 1:
        return found
    late = waiting(made.devices, found[0], DEVICE_BOUND)  # as gpuscope.prediction adds it
    return found[0] + late.mean_s, found[1] + late.low_s, found[2] + late.high_s


def capture(made: Expressed) -> None:
    """Keep what `step_s` needs of a row, as far as no device has to be known."""
    plan, count = made.options.parallel, microbatches(made)
    if plan is not None and (plan.pp or 1) > 1:
        _blocks(made, plan.pp or 1)
        return
    for few in [with_microbatches(made, m) for m in (1, 2)] if count > 2 else [made]:
        step_of(few)


def microbatches(made: Expressed) -> int:
    """Of a replica in a step; 1 where a row is no job."""
    plan = made.options.parallel
    if plan is None:
        return 1
    return (plan.global_batch or 1) // (_replicas(made) * (plan.microbatch or 1))


def with_microbatches(made: Expressed, count: int) -> Expressed:
    """The same job with so many microbatches."""
    plan = made.options.parallel
    assert plan is not None
    batch = _replicas(made) * (plan.microbatch or 1) * count
    options = replace(made.options, parallel=replace(plan, global_batch=batch))
    return replace(made, options=options)


def from_few(count: int, at: tuple[int, int], time_s: Callable[[int], Times]) -> Times:
    """The step of `count` microbatches from those of two smaller numbers; see above."""
    share = (count - at[0]) / (at[1] - at[0])
    first, second = time_s(at[0]), time_s(at[1])
    middle, low, high = (a + share * (b - a) for a, b in zip(first, second, strict=True))
    return middle, low, high


def _in_turn_s(made: Expressed, count: int) -> Times:
    if count <= 2:
        return _recost(made, step_of(made))

    def time_s(m: int) -> Times:
        few = with_microbatches(made, m)
        return _recost(few, step_of(few))

    return from_few(count, (1, 2), time_s)


def _pipeline_s(made: Expressed, count: int, ranks: int) -> Times:
    from gpuscope.program.pipeline.job_programs import LONG

    blocks = _of(_blocks(made, ranks), made, count)
    if _own_layers(made):
        stages = {id(each): replace(each, program=_plain(each.program))
                  for each in blocks.stages.values()}  # fmt: skip
        blocks = replace(blocks, stages={n: stages[id(b)] for n, b in blocks.stages.items()})
    folded = blocks.operators > LONG

    def time_s(m: int) -> Times:
        some = _of(blocks, made, m)
        if folded:  # as `rank_programs` does with so many operators
            return _recost(made, replace(some.brief().programs(), pipeline=some))
        return _recost(made, some.programs())

    if count < MANY * ranks:
        return time_s(count)
    return from_few(count, (ranks, 2 * ranks), time_s)


def _blocks(made: Expressed, ranks: int) -> PipelineBlocks:
    return pipeline_of(with_microbatches(made, ranks))


def _of(blocks: PipelineBlocks, made: Expressed, count: int) -> PipelineBlocks:
    """The same pipeline with so many microbatches."""
    plan = made.options.parallel
    assert plan is not None
    assert made.options.seq is not None
    samples = _replicas(made) * (plan.microbatch or 1) * count
    shape = replace(blocks.shape, microbatches=count)
    return replace(blocks, shape=shape, samples=samples, tokens=samples * made.options.seq)


def _recost(made: Expressed, programs: Program | RankPrograms) -> Times:
    from gpuscope.api import recost
    from gpuscope.program.types import Program

    if _own_layers(made) and not isinstance(programs, Program) and programs.pipeline is None:
        programs = replace(programs, programs=tuple(map(_plain, programs.programs)))
    found = recost(programs, made.machine.cluster(made.devices), memory=False)
    assert found.low_s is not None
    assert found.high_s is not None
    return found.step_time_s, found.low_s, found.high_s


def _own_layers(made: Expressed) -> bool:
    """Whether PyTorch's distributed code stands for another's (`Stack.dtensor`)."""
    return any(stack.name == made.stack and not stack.dtensor for stack in stacks())


def _plain(program: Program) -> Program:
    """The same operators, called without DTensor's Python around them."""
    ops = (replace(op, distributed=False) if op.distributed else op for op in program.ops)
    return replace(program, ops=tuple(ops))


def _replicas(made: Expressed) -> int:
    plan = made.options.parallel
    assert plan is not None
    return made.devices // ((plan.tp or 1) * (plan.cp or 1) * (plan.pp or 1))
