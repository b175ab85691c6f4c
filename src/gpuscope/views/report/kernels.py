"""The longest kernels of a run, each explained in blocks: tiles, waves, traffic, limiter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.grouping import group_key
from gpuscope.analysis.types import Task
from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Block
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.operators import Target, target
from gpuscope.program.types import Op
from gpuscope.run import Run
from gpuscope.views.report.device_facts import device_of_run
from gpuscope.views.report.kernel_blocks import operator_blocks
from gpuscope.views.report.kernel_size import size_blocks

MOST_KERNELS = 24
"""Kernel groups that are explained, the longest of which something can be said."""

MOST_TRIED = 40
"""Kernel groups that are looked at for that."""

LEAST_SHARE = 0.005
"""Of the step: shorter groups are not explained."""


@dataclass(frozen=True, slots=True)
class Example:
    """A group of equal kernels with one of them.

    Attributes:
        key: of the group.
        task: what the analysis says of it.
        kernel: one of its kernels, with work and traffic where a model knows them.
        op: the operator that launches it, with its results; None if unknown.
        event: row of one of its events in the timeline.
    """

    key: str
    task: Task
    kernel: Kernel
    op: Op | None
    event: int


def kernels_explained(run: Run) -> dict[str, tuple[Block, ...]]:
    """Return the blocks of each kernel group that is worth it, by its key (`Task.group`).

    Explained are products, attention and convolutions as their planners cut them up, streaming
    kernels by their size, and what recorded kernels ask of a multiprocessor. Nothing where the
    device is not in the catalogue.
    """
    device = device_of_run(run)
    if device is None:
        return {}
    on = target(device)
    found: dict[str, tuple[Block, ...]] = {}
    for example in examples(run):
        blocks = _blocks(run, example, on)
        if blocks:
            found[example.key] = blocks
        if len(found) == MOST_KERNELS:
            break
    return found


def _blocks(run: Run, example: Example, on: Target) -> tuple[Block, ...]:
    """What can be said of one group; a part that its model refuses is left out."""
    blocks: tuple[Block, ...] = ()
    if example.op is not None:
        try:
            blocks = operator_blocks(example.op, example.kernel, on)
            blocks = blocks or size_blocks(example.op, example.kernel, on)
        except GpuscopeError:
            blocks = ()
    if run.timeline.recorded is None:
        return blocks
    from gpuscope.views.report.kernel_residency import residency_blocks

    try:
        return (*blocks, *residency_blocks(run.timeline, example.event, on.device))
    except GpuscopeError:
        return blocks


def examples(run: Run) -> Iterator[Example]:
    """The longest groups of kernels of the compute units, each with one of its kernels."""
    by_key, by_shape = _first_kernels(run)
    rows = _first_events(run)
    recorded = any("concrete_inputs" in op.args for op in run.timeline.ops if isinstance(op, Op))
    for task in run.analysis.tasks[:MOST_TRIED]:
        if task.time_s < LEAST_SHARE * run.analysis.step_s:
            return
        # Runs written before groups had keys are found by symbol, grid and tile.
        shape = task.kernel, task.grid, task.tile
        index = by_key.get(task.group, -1) if task.group else by_shape.get(shape, -1)
        if index not in rows:
            continue
        kernel = run.timeline.kernels[index]
        assert isinstance(kernel, Kernel)
        op = _operator(run, rows[index], kernel, recorded)
        yield Example(group_key(kernel), task, kernel, op, rows[index])


_Shape = tuple[str, int, tuple[int, ...]]


def _first_kernels(run: Run) -> tuple[dict[str, int], dict[_Shape, int]]:
    """Index of the first kernel of each group, by its key and by symbol, grid and tile."""
    by_key: dict[str, int] = {}
    by_shape: dict[_Shape, int] = {}
    for index, kernel in enumerate(run.timeline.kernels):
        if isinstance(kernel, Kernel):
            by_key.setdefault(group_key(kernel), index)
            by_shape.setdefault((kernel.name, kernel.grid, kernel.tile), index)
    return by_key, by_shape


def _first_events(run: Run) -> dict[int, int]:
    """Row of the first event of each kernel."""
    used, first = np.unique(run.timeline.events.kernel, return_index=True)
    return {int(k): int(row) for k, row in zip(used, first, strict=True) if k >= 0}


def _operator(run: Run, event: int, kernel: Kernel, recorded: bool) -> Op | None:
    """The operator of an event, with its results worked out where a recording lacks them."""
    index = int(run.timeline.events.op[event])
    op = run.timeline.ops[index] if index >= 0 else None
    if not isinstance(op, Op):
        return None
    if op.outputs:
        return op
    if run.origin == "predicted":
        return None  # captured as it is: only what changes lists in place has no results
    from gpuscope.program.signatures import complete

    elementwise = kernel.kind == "pointwise"
    return complete(op, values_recorded=recorded, elementwise=elementwise)
