"""Grow a shallow program to its full depth: put copies of a period between two equal ones.

Nothing is assumed: the two periods must be equal, tensor by tensor, and each tensor must be born
and die at the same place of its layer's forward or backward part. Whatever does not fit raises
`NotFoldableError`, and the caller captures the whole model instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from gpuscope.program.fold_chains import Chain, link_all, stacks_scalars
from gpuscope.program.fold_layers import (
    FIRST,
    LEAD,
    TAIL,
    NotFoldableError,
    Pass,
    Stack,
    Tags,
    find_passes,
    is_list_op,
)
from gpuscope.program.fold_lists import ListGrower
from gpuscope.program.fold_memory import MemoryGrower
from gpuscope.program.fold_places import Places
from gpuscope.program.fold_waits import Waits
from gpuscope.program.types import Op, Program, TensorSpec

__all__ = ["expand"]


def expand(program: Program, names: Mapping[int, str], stack: Stack) -> Program:
    """The program of a model with `stack.copies` periods more.

    Args:
        program: captured at depth `stack.depth`.
        names: dotted names of the storages that modules and optimizers hold.
        stack: the repeated layers.

    Returns:
        The program as a capture at full depth gives it, but for the numbering of storages. Its
        `modules` and `parameters` are still the shallow model's.

    Raises:
        NotFoldableError: the layers do not repeat exactly.
    """
    tags = Tags(program.ops, names, stack)
    passes = find_passes(program.ops, tags)
    link = link_all(program.ops, program.storages, names, passes, tags)
    chains = link.chains()
    places = Places(passes, stack.copies, tags)
    memory = MemoryGrower(program.storages, places, stack, _unused_id(program))
    ranges = _allowed_splits(program.ops, chains, places)
    for chain, (first, last) in zip(chains, ranges, strict=True):
        memory.settle(chain, first, last)
    waits = Waits(program.ops, passes, places, stack)
    regions = Regions(link.regions, stack.copies)
    grower = _OpGrower(program.ops, passes, chains, tags, waits, regions)
    ops = grower.ops()
    return replace(program, ops=ops, storages=memory.storages(grower.lists.vectors))


def _unused_id(program: Program) -> int:
    used = {spec.storage for op in program.ops for spec in (*op.inputs, *op.outputs)}
    return 1 + max(used | {s.id for s in program.storages}, default=-1)


def _allowed_splits(
    ops: Sequence[Op], chains: Sequence[Chain], places: Places
) -> list[tuple[int, int]]:
    """Where each chain may be lengthened, from operators outside of the repeated segments.

    What an operator at the leading end uses keeps its place from the front, what one at the
    trailing end uses keeps its place from the back.
    """
    where = {e: (n, i) for n, chain in enumerate(chains) for i, e in enumerate(chain.elements)}
    ranges = [(0, len(chain.elements)) for chain in chains]
    for op in ops:
        if places.of(op.index).repeated or is_list_op(op) or stacks_scalars(op):
            continue
        for spec in (*op.inputs, *op.outputs):
            if spec.storage not in where:
                continue
            number, i = where[spec.storage]
            side = places.side(op.index)
            if side is None:
                raise NotFoldableError(f"{op.name} at operator {op.index} uses one layer's tensor")
            first, last = ranges[number]
            ranges[number] = (max(first, i + 1), last) if side == LEAD else (first, min(last, i))
    return ranges


class Regions:
    """Numbers of compiled calls in the grown program, in the order in which they begin.

    Args:
        following: calls of the first repeated period, and those of the second that follow them.
        copies: periods that are put between the two.
    """

    def __init__(self, following: Mapping[int, int], copies: int) -> None:
        self._following, self._copies = following, copies
        self._numbers: dict[tuple[int, int], int] = {}

    def at(self, region: int, periods: int = 0) -> int:
        """The call that does `periods` deeper what `region` does in the first repeated period."""
        if region == 0:
            return 0
        if periods > self._copies or self._following.get(region) == region:
            region, periods = self._following[region], 0
        return self._numbers.setdefault((region, periods), len(self._numbers) + 1)


class _OpGrower:
    """Writes the operators of the grown program."""

    def __init__(
        self,
        ops: Sequence[Op],
        passes: Sequence[Pass],
        chains: Sequence[Chain],
        tags: Tags,
        waits: Waits,
        regions: Regions,
    ) -> None:
        self._waits, self._regions = waits, regions
        self._ops, self._passes, self._tags, self._stack = ops, passes, tags, tags.stack
        self._copies = tags.stack.copies
        self._where = {e: (chain, i) for chain in chains for i, e in enumerate(chain.elements)}
        self._specs: list[dict[int, TensorSpec]] = [{} for _ in range(self._copies + 2)]
        self._paths: list[dict[str, str]] = [{} for _ in range(self._copies + 2)]
        self._fields: dict[int, dict[str, Any]] = {}
        self._out: list[Op] = []
        self.lists = ListGrower(tags, self._copies, self._spec)

    def ops(self) -> tuple[Op, ...]:
        """All operators, in order."""
        done = 0
        for walk in self._passes:
            self._keep(self._ops[done : walk.start])
            first = walk.segment_start(FIRST)
            segment = self._ops[first : first + walk.length]
            turns = range(self._copies + 2)
            for periods in turns if walk.upwards else reversed(turns):
                self._copy(segment, periods, walk)
            done = walk.end
        self._keep(self._ops[done:])
        return tuple(self._out)

    def _keep(self, ops: Sequence[Op]) -> None:
        """Operators outside of the repeated segments: only lists and numbers change."""
        for op in ops:
            kept = self.lists.grown(op)
            index, module = len(self._out), op.module
            if self._stack.zone(module) == TAIL:
                module = self._stack.moved(module, self._copies)
            waits, region = self._waits.kept(op), self._regions.at(op.region)
            same = waits == op.waits and region == op.region
            if index != op.index or module != op.module or not same:
                kept = replace(kept, index=index, module=module, waits=waits, region=region)
            self._out.append(kept)

    def _copy(self, segment: Sequence[Op], periods: int, walk: Pass) -> None:
        """The operators of FIRST as they are `periods` deeper."""
        out, paths, made = self._out, self._paths[periods], self._specs[periods]
        for offset, op in enumerate(segment):
            module = paths.get(op.module)
            if module is None:
                module = paths[op.module] = self._stack.moved(op.module, periods)
            inputs = [made.get(id(s)) or self._spec(s, periods) for s in op.inputs]
            outputs = [made.get(id(s)) or self._spec(s, periods) for s in op.outputs]
            values = self._fields_of(op)
            values["index"], values["module"] = len(out), module
            values["inputs"], values["outputs"] = tuple(inputs), tuple(outputs)
            values["waits"] = self._waits.copied(walk, offset, periods)
            values["region"] = self._regions.at(op.region, periods)
            out.append(Op(**values))

    def _fields_of(self, op: Op) -> dict[str, Any]:
        """The operator's fields, read once (`dataclasses.replace` costs three times as much)."""
        found = self._fields.get(op.index)
        if found is None:
            found = self._fields[op.index] = {f.name: getattr(op, f.name) for f in fields(Op)}
        return found

    def _spec(self, spec: TensorSpec, periods: int) -> TensorSpec:
        """The tensor that plays the part of `spec`, a tensor of FIRST, some periods deeper."""
        made = self._specs[periods].get(id(spec))
        if made is None:
            number = spec.storage
            if number in self._where:
                chain, i = self._where[number]
                number = chain.at(i + periods, self._copies)
            made = spec
            if number != spec.storage:
                made = TensorSpec(
                    spec.shape, spec.stride, spec.dtype, spec.device, number, spec.pinned
                )
            self._specs[periods][id(spec)] = made
        return made
