"""Which storage of one layer plays the part of which storage of the next layer.

A *chain* lists storages that play one part in successive periods: the weights of one projection,
or the hidden states handed from layer to layer. Growing the model lengthens every chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from gpuscope.program.fold_layers import (
    FIRST,
    SECOND,
    NotFoldableError,
    Pass,
    Stack,
    Tags,
    is_list_op,
)
from gpuscope.program.types import Op, Storage, TensorSpec

__all__ = ["Chain", "Link", "ListRun", "input_runs", "is_tensor_list", "link_all", "list_runs"]


@dataclass(slots=True)
class Chain:
    """Storages by part, one a period.

    Attributes:
        elements: storage ids of the shallow program.
        split: new storages go before this element; those before it keep their place from the
            front, the others from the back.
        fresh: id of the first new storage.
    """

    elements: list[int]
    split: int = 0
    fresh: int = -1

    def at(self, place: int, copies: int) -> int:
        """Storage id at a place of the lengthened chain."""
        if place < self.split:
            return self.elements[place]
        if place < self.split + copies:
            return self.fresh + place - self.split
        return self.elements[place - copies]


@dataclass(slots=True)
class Link:
    """The successor of each storage one period on, gathered pair by pair.

    Attributes:
        next, previous, fixed: by storage; those that all periods share are fixed.
        regions: the same of compiled calls, by their number; one that all share follows itself.
    """

    next: dict[int, int] = field(default_factory=dict)
    previous: dict[int, int] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)
    regions: dict[int, int] = field(default_factory=dict)

    def pair(self, first: int, second: int) -> None:
        """Note that `second` does for a period what `first` does for the one before.

        Raises:
            NotFoldableError: it contradicts an earlier pair.
        """
        if first == second:
            self.fixed.add(first)
            clash = first in self.next or first in self.previous
        else:
            clash = self.next.setdefault(first, second) != second
            clash |= self.previous.setdefault(second, first) != first
            clash |= first in self.fixed or second in self.fixed
        if clash:
            raise NotFoldableError(f"storages {first} and {second} play no single part")

    def pair_specs(self, first: Sequence[TensorSpec], second: Sequence[TensorSpec]) -> None:
        """Note the storages of tensors that must be equal in all else."""
        if len(first) != len(second):
            raise NotFoldableError("neighbouring layers differ in the number of tensors")
        for one, other in zip(first, second, strict=True):
            if one is not other and replace(one, storage=other.storage) != other:
                raise NotFoldableError(f"neighbouring layers differ: {one} and {other}")
            self.pair(one.storage, other.storage)

    def pair_regions(self, first: int, second: int) -> None:
        """Note which compiled call (0: none) does for a period what `first` does for its own.

        Raises:
            NotFoldableError: it contradicts an earlier pair.
        """
        if self.regions.setdefault(first, second) != second or (first == 0) != (second == 0):
            raise NotFoldableError(f"compiled calls {first} and {second} play no single part")

    def chains(self) -> list[Chain]:
        """All chains, each from its first element.

        Raises:
            NotFoldableError: storages follow each other in a circle.
        """
        chains = []
        for head in self.next:
            if head in self.previous:
                continue
            elements = [head]
            while elements[-1] in self.next:
                elements.append(self.next[elements[-1]])
            chains.append(Chain(elements))
        if sum(len(c.elements) - 1 for c in chains) != len(self.next):
            raise NotFoldableError("storages follow each other in a circle")
        return chains


@dataclass(frozen=True, slots=True)
class ListRun:
    """The part of a list of tensors that belongs to FIRST; SECOND's follows, equally long."""

    start: int
    length: int


def list_runs(specs: Sequence[TensorSpec], tags: Tags) -> list[ListRun]:
    """The parts of a flattened list that grow with the layers.

    Raises:
        NotFoldableError: the layers' tensors do not lie side by side in the list.
    """
    zones = [tags.of_storage.get(spec.storage) for spec in specs]
    runs = []
    at = 0
    while at < len(zones):
        if zones[at] not in (FIRST, SECOND):
            at += 1
            continue
        length = _run_length(zones, at)
        if zones[at] == SECOND or length != _run_length(zones, at + length, SECOND):
            raise NotFoldableError("the layers' tensors do not lie side by side in a list")
        runs.append(ListRun(at, length))
        at += 2 * length
    return runs


def input_runs(op: Op, tags: Tags) -> list[ListRun]:
    """The parts of an operator's flattened inputs that grow with the layers.

    A list that names one tensor again and again (the flag of a gradient scaler) grows like the
    operator's first list.
    """
    runs = list_runs(op.inputs, tags)
    lengths = [len(v) for v in op.args.values() if is_tensor_list(v)]
    if not is_list_op(op) or not lengths:
        return runs
    first = [run for run in runs if run.start < lengths[0]]
    start = lengths[0]
    for length in lengths[1:]:
        known = any(start <= run.start < start + length for run in runs)
        if length == lengths[0] and not known:
            runs += [ListRun(start + run.start, run.length) for run in first]
        start += length
    return sorted(runs, key=lambda run: run.start)


def is_tensor_list(value: object) -> TypeGuard[tuple[str, ...]]:
    """Whether a recorded argument stands for a list of tensors."""
    return isinstance(value, tuple) and bool(value) and set(value) == {"tensor"}


def _run_length(zones: Sequence[int | None], start: int, zone: int = FIRST) -> int:
    end = start
    while end < len(zones) and zones[end] == zone:
        end += 1
    return end - start


def link_all(
    ops: Sequence[Op],
    storages: Sequence[Storage],
    names: Mapping[int, str],
    passes: Sequence[Pass],
    tags: Tags,
) -> Link:
    """Compare the two repeated periods everywhere and note who follows whom.

    Raises:
        NotFoldableError: the periods differ.
    """
    stack, link = tags.stack, Link()
    inside: set[int] = set()
    for walk in passes:
        inside.update(range(walk.start, walk.end))
        first, second = walk.segment_start(FIRST), walk.segment_start(SECOND)
        for offset in range(walk.length):
            _link_ops(link, ops[first + offset], ops[second + offset], stack)
    for op in ops:
        if op.index in inside or not (is_list_op(op) or stacks_scalars(op)):
            continue
        for specs, runs in (
            (op.inputs, input_runs(op, tags)),
            (op.outputs, list_runs(op.outputs, tags)),
        ):
            for run in runs:
                middle, end = run.start + run.length, run.start + 2 * run.length
                link.pair_specs(specs[run.start : middle], specs[middle:end])
    _link_names(link, names, stack)
    _link_unnamed(link, storages, stack)
    return link


def stacks_scalars(op: Op) -> bool:
    """Whether the operator gathers one-element tensors into a vector (norms of gradients)."""
    return op.name == "aten::stack" and all(not spec.shape for spec in op.inputs)


def _link_ops(link: Link, one: Op, other: Op, stack: Stack) -> None:
    # Python calls are counted, not recorded: a cache that the first layer fills may change them.
    bare = {
        "index": 0,
        "inputs": (),
        "outputs": (),
        "module": "",
        "python_calls": 0,
        "python_instructions": 0,
        "waits": (),
        "region": 0,
    }
    same = replace(one, **bare) == replace(other, **bare)  # type: ignore[arg-type]
    same = same and stack.moved(one.module, 1) == other.module
    if not same:
        raise NotFoldableError(
            f"neighbouring layers differ: {one.name} in '{one.module}' and {other.name} in"
            f" '{other.module}'"
        )
    link.pair_regions(one.region, other.region)
    link.pair_specs(one.inputs, other.inputs)
    link.pair_specs(one.outputs, other.outputs)


def _link_names(link: Link, names: Mapping[int, str], stack: Stack) -> None:
    by_name = {name: number for number, name in names.items()}
    for name, number in by_name.items():
        zone = stack.zone(name)
        if zone == FIRST:
            other = by_name.get(stack.moved(name, 1))
            if other is None:
                raise NotFoldableError(f"'{name}' has no counterpart one period on")
            link.pair(number, other)


def _link_unnamed(link: Link, storages: Sequence[Storage], stack: Stack) -> None:
    """Storages that no operator of the step touches and nobody named, by their description."""
    found: dict[int, dict[object, list[int]]] = {FIRST: {}, SECOND: {}}
    for storage in storages:
        zone = stack.zone(storage.module)
        known = storage.id in link.next or storage.id in link.previous or storage.id in link.fixed
        if known or storage.born >= 0 or zone not in found:
            continue
        path = stack.moved(storage.module, 1) if zone == FIRST else storage.module
        key = (path, storage.label, storage.category, storage.nbytes, storage.died)
        found[zone].setdefault(key, []).append(storage.id)
    for what, first in found[FIRST].items():
        second = found[SECOND].pop(what, [])
        if len(first) != len(second):
            raise NotFoldableError(f"memory without a counterpart one period on: {what}")
        for one, other in zip(first, second, strict=True):
            link.pair(one, other)
    if found[SECOND]:
        raise NotFoldableError("memory without a counterpart one period before")
