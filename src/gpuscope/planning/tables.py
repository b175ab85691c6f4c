"""What a block costs: recorded once per split, priced on each device for each micro-batch.

One block of each kind that repeats is recorded for each (tp, cp, ep) with one and with two
sequences, or, where one sequence takes other operators (under tensor parallelism), with two and
with four. Every length in a program grows evenly with the sequences, so that programs for 4, 8 or
16 follow from two; the kernel models price them. What a candidate adds (replicas, stages,
micro-batches) is composed of that by `gpuscope.planning.composed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import cast

from gpuscope.capturing import capture_job, kept_figures
from gpuscope.cost.anew import costed_anew
from gpuscope.cost.registry import Constants
from gpuscope.document.plain import plain
from gpuscope.hardware import Cluster, calibration_for, parse_target
from gpuscope.planning.blocks import Block, block_of, inside, kept_in, mean_of
from gpuscope.planning.dimensions.registry import Choices, applied
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.contention import DeviceOverlap

Split = tuple[int, int, int, Choices]
"""(tp, cp, ep), and what is chosen beside the layout."""

__all__ = ["Tables", "grown"]

_CHUNKED = "aten::_chunk_cat"
"""Puts gradients in order to be summed over ranks: once a step or a micro-batch, by the plan."""


class Tables:
    """Blocks of a question's model, recorded when they are first asked for."""

    def __init__(self, question: Question) -> None:
        self.question = question
        experts = question.size.experts
        dense = experts.dense_layers if experts else 0
        self.depth = dense + min(question.size.period, question.size.layers - dense)
        self.kinds = _kinds(question.size, dense, self.depth)
        self._recorded: dict[object, Program] = {}
        self._priced: dict[object, Block] = {}

    def of(self, candidate: Candidate) -> Block:
        """The block of a candidate.

        Raises:
            GpuscopeError: it cannot be recorded, or not be priced on this device.
        """
        plan, cluster = candidate.plan, candidate.cluster
        # How many blocks a stage has is nothing that one of them knows.
        more = tuple(each for each in candidate.more if each[0] != "stages")
        split = plan.tp, plan.cp, plan.ep, more
        key = (*split, plan.microbatch, cluster.device.id, cluster.devices_per_node)
        if key not in self._priced:

            def make() -> Block:
                return self._price(self._program(split, plan.microbatch), cluster)

            options = self._options(split, plan.microbatch)
            about = {"layers": self.question.size.layers, "on": plain(cluster)}
            size = self.question.size.deep(self.depth)
            self._priced[key] = kept_figures(Block, size, options, cluster, about, make)
        return self._priced[key]

    def _program(self, split: Split, sequences: int) -> Program:
        if sequences <= 2:
            return self._record(split, sequences)
        for few in (1, 2):
            made = grown(
                (few, self._record(split, few)), (2 * few, self._record(split, 2 * few)), sequences
            )
            if made is not None:
                return made
        return self._record(split, sequences)

    def _record(self, split: Split, sequences: int) -> Program:
        key = (*split, sequences)
        if key not in self._recorded:
            first = self.question.clusters[0].device.id
            options = self._options(split, sequences)
            assert options.parallel is not None
            world = options.parallel.world
            cluster = parse_target(f"{world}x{first}" if world != 1 else first)
            made = capture_job(self.question.size.deep(self.depth), cluster, options)
            self._recorded[key] = made.programs[0] if isinstance(made, RankPrograms) else made
        return self._recorded[key]

    def _options(self, split: Split, sequences: int) -> WorkloadOptions:
        """Of the smallest job that is split so."""
        tp, cp, ep, more = split
        world, spread = tp * cp, ep * int(dict(more).get("etp", "1"))
        while world % spread:
            world += tp * cp
        asked = ParallelOptions(world=world, tp=tp, cp=cp, ep=ep, fsdp="none", microbatch=sequences)
        parallel = applied(asked, more)
        return WorkloadOptions(task="train", seq=self.question.seq, parallel=parallel)

    def _price(self, program: Program, cluster: Cluster) -> Block:
        # The board's power limit goes by the whole step: as many blocks as the model has.
        ops = tuple(_repeated(op, self.kinds) for op in _own(program))
        constants = calibration_for(cluster.device)
        made = costed_anew(_renumbered(program, ops), cluster.device, constants, cluster)
        held = sum(s.nbytes for s in program.storages if s.category == "parameter") / 4
        overlap = DeviceOverlap.of(cluster.device, constants)
        instruction_s = Constants(constants).value("host.python_instruction_s")
        blocks = {
            layer: block_of(made.costed, layer, held, overlap, instruction_s)
            for layer in self.kinds
        }
        return mean_of(
            (deep, replace(blocks[layer], kept=kept_in(program, layer)))
            for layer, deep in self.kinds.items()
        )


def _kinds(size: TransformerSize, first: int, depth: int) -> dict[str, int]:
    """A block of each kind among the recorded ones, by module path: how many the model has.

    Args:
        size: the model.
        first: leading blocks left aside.
        depth: blocks that are recorded.
    """
    counts = Counter(size.kind(layer) for layer in range(first, size.layers))
    last = {size.kind(layer): layer for layer in range(first, depth)}
    return {f"layers.{layer}": counts[kind] for kind, layer in last.items()}


def _repeated(op: Op, kinds: Mapping[str, int]) -> Op:
    """The operator as often as the model has blocks of its kind."""
    deep = next((count for layer, count in kinds.items() if inside(op, layer)), 0)
    return replace(op, repeat=deep) if deep and op.phase != "optimizer" else op


def grown(few: tuple[int, Program], more: tuple[int, Program], sequences: int) -> Program | None:
    """The program for so many sequences, from those for two other numbers of them.

    Returns None where the two differ by more than their lengths.
    """
    (at, one), (beyond, two) = few, more
    reach = Fraction(sequences - at, beyond - at)
    if len(one.ops) != len(two.ops) or len(one.storages) != len(two.storages):
        return None
    ops: list[Op] = []
    for a, b in zip(one.ops, two.ops, strict=True):
        if (a.name, len(a.inputs), len(a.outputs)) != (b.name, len(b.inputs), len(b.outputs)):
            return None
        try:
            ops.append(
                replace(
                    a,
                    inputs=_specs(a.inputs, b.inputs, reach),
                    outputs=_specs(a.outputs, b.outputs, reach),
                    args={k: _line(v, b.args[k], reach) for k, v in a.args.items()},
                )
            )
        except (KeyError, TypeError):
            return None
    try:
        storages = tuple(
            replace(a, nbytes=cast("int", _line(a.nbytes, b.nbytes, reach)))
            for a, b in zip(one.storages, two.storages, strict=True)
        )
    except TypeError:
        return None
    return replace(one, ops=tuple(ops), storages=storages)


def _specs(
    one: tuple[TensorSpec, ...], two: tuple[TensorSpec, ...], reach: Fraction
) -> tuple[TensorSpec, ...]:
    return tuple(
        replace(
            a,
            shape=cast("tuple[int, ...]", _line(a.shape, b.shape, reach)),
            stride=cast("tuple[int, ...]", _line(a.stride, b.stride, reach)),
        )
        for a, b in zip(one, two, strict=True)
    )


def _line(one: object, two: object, reach: Fraction) -> object:
    """The straight line through two values, so far along; TypeError where it has no such point."""
    if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        return tuple(_line(a, b, reach) for a, b in zip(one, two, strict=True))
    if type(one) is int and type(two) is int:
        there = one + (two - one) * reach
        if there.denominator != 1:
            raise TypeError
        return int(there)
    if one != two and not (isinstance(one, str) and isinstance(two, str)):
        raise TypeError
    return one


def _renumbered(program: Program, ops: tuple[Op, ...]) -> Program:
    """The program with these of its operators alone."""
    placed = {op.index: at for at, op in enumerate(ops)}
    numbered = tuple(
        replace(op, index=at, waits=tuple(placed[w] for w in op.waits if w in placed))
        for at, op in enumerate(ops)
    )
    return replace(program, ops=numbered, storages=())


def _own(program: Program) -> tuple[Op, ...]:
    """Operators that every plan has: no casts of parameters or to gradients, no sums of these, nor
    what puts them in order for that."""
    sort = {storage.id: storage.category for storage in program.storages}
    kept: list[Op] = []
    cast: set[int] = set()
    for op in program.ops:
        if op.stream != 0 or op.name == _CHUNKED:
            continue
        if op.name in ("aten::_to_copy", "aten::copy_"):
            read, made = op.inputs[-1].storage, op.outputs[0].storage
            if sort.get(read) == "parameter" or sort.get(made) == "gradient" or read in cast:
                cast.add(made)
                continue
        kept.append(op)
    return tuple(kept)
