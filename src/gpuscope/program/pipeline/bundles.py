"""A stage with few operators: every block three or more, its memory in bundles, peaks kept exactly.

A block of a thousand operators is the same in every microbatch. For jobs of many microbatches and
ranks it becomes a few operators: one that begins it, those that say what it does (their times are
found once, see `gpuscope.timeline.pipeline_fold`), and one that ends it. Memory is bundled by what
it holds and how long, so that three states of every block stay exact: before it, at its peak, and
after it. So the peak of the step is that of the step operator by operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuscope.program.pipeline.blocks import SHARED, BlockKey, StageBlocks
from gpuscope.program.types import TOGETHER, Op, Program, Storage

__all__ = ["BEGIN", "END", "PART", "Part", "bundled"]

PART = "part"
"""Key of `Op.args` under which an operator of a bundled stage says what it stands for."""

BEGIN, END = "gpuscope::begin_pass", "gpuscope::end_pass"
"""Operators without work, at the edges of a bundled block."""

_GRAIN = 512
"""The allocator gives out multiples of so many bytes (c10/cuda/CUDACachingAllocator.cpp)."""


@dataclass(frozen=True, slots=True)
class Part:
    """An operator of a bundled block.

    Attributes:
        name: what it does ("gpuscope::matmul_part").
        label: unique in the stage; kept in `Op.args`.
        calls: operators that it stands for.
        group: process group, in the numbering of the stage's program; -1 for computation.
        waited: the block's end waits for it.
        recomputed: it does again what the forward pass did.
    """

    name: str
    label: str
    calls: int
    group: int = -1
    waited: bool = False
    recomputed: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a block was ([first, end), its peak) and where its few operators are now."""

    first: int
    end: int
    peak: int
    begin: int
    middle: int
    last: int


@dataclass(slots=True)
class _Bundler:
    """Collects the operators of a bundled stage."""

    blocks: StageBlocks
    parts: Mapping[BlockKey, Sequence[Part]]
    ops: list[Op] = field(default_factory=list)
    spans: dict[BlockKey, tuple[int, int]] = field(default_factory=dict)
    places: list[_Span] = field(default_factory=list)


def bundled(blocks: StageBlocks, parts: Mapping[BlockKey, Sequence[Part]]) -> StageBlocks:
    """The same stage with a few operators a block.

    Args:
        blocks: the stage as captured.
        parts: what each block's work becomes; every block has one part at least.
    """
    bundler = _Bundler(blocks, parts)
    alive = _alive_bytes(blocks.program)
    for key, (first, end) in sorted(blocks.spans.items(), key=lambda item: item[1]):
        _add_block(bundler, key, first, end, alive)
    storages, owner = _storages(bundler)
    program = replace(blocks.program, ops=tuple(bundler.ops), storages=tuple(storages))
    kept = {s.id for s in storages}
    return StageBlocks(
        program,
        bundler.spans,
        blocks.sends,
        blocks.receives,
        owner,
        {new: replace(old, died=0) for new, old in blocks.left_behind.items() if new in kept},
        blocks.unused,
        blocks.units,
    )


def _alive_bytes(program: Program) -> list[int]:
    """Bytes held while each operator runs."""
    change = [0] * (len(program.ops) + 2)
    for storage in program.storages:
        change[max(storage.born, 0)] += _rounded(storage.nbytes)
        if storage.died is not None:
            change[storage.died] -= _rounded(storage.nbytes)
    held, out = 0, []
    for step in change[: len(program.ops)]:
        held += step
        out.append(held)
    return out


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _GRAIN) * _GRAIN


def _add_block(
    bundler: _Bundler, key: BlockKey, first: int, end: int, alive: Sequence[int]
) -> None:
    ops, program = bundler.ops, bundler.blocks.program
    phase = program.ops[first].phase if first < end else "other"
    ops.append(replace(program.ops[first - 1], index=len(ops)))
    begin = len(ops)
    parts = bundler.parts.get(key, ())
    if first == end or not parts:
        bundler.spans[key] = (begin, begin)
        bundler.places.append(_Span(first, end, first, begin, begin, begin))
        return
    edges = [Part(name, f"{key[0]}:{key[1]}:{name}", 0) for name in (BEGIN, END)]
    for part in (edges[0], *parts, edges[1]):
        waits: tuple[int, ...] = ()
        if part.name == END:
            waits = tuple(begin + 1 + n for n, p in enumerate(parts) if p.waited)
        ops.append(
            Op(
                index=len(ops),
                name=part.name,
                args={PART: part.label, "calls": part.calls},
                phase=phase,
                group=part.group,
                waits=waits,
                module=_module(program),
                recomputed=part.recomputed,
            )
        )
    peak = max(range(first, end), key=lambda i: alive[i])
    bundler.spans[key] = (begin, len(ops))
    bundler.places.append(_Span(first, end, peak, begin, begin + 1, len(ops) - 1))


def _module(program: Program) -> str:
    return program.name


def _storages(bundler: _Bundler) -> tuple[list[Storage], dict[int, int]]:
    """Bundles by what they hold and how long; what is sent or received stays by itself."""
    blocks, owner = bundler.blocks, {}
    alone = {
        spec.storage
        for table in (blocks.sends, blocks.receives)
        for specs in table.values()
        for spec in specs
    } | set(blocks.left_behind)
    bundles: dict[tuple[object, ...], Storage] = {}
    twins = {twin.id for twin in blocks.left_behind.values()}
    for storage in blocks.program.storages:
        if storage.id in twins:
            continue
        born, died = _moved(bundler, storage)
        if born is None:
            continue
        whose = blocks.owner.get(storage.id, SHARED)
        resident = storage.born < 0 and storage.died is None
        key: tuple[object, ...] = (whose, storage.category, born, died)
        if storage.id in alone or resident:
            key = (*key, storage.id)
        known = bundles.get(key)
        if known is None:
            single = storage.id in alone or resident
            bundles[key] = replace(
                storage,
                born=born,
                died=died,
                label=storage.label if single else TOGETHER,
                module=storage.module if single else "",
                nbytes=storage.nbytes if resident else _rounded(storage.nbytes),
            )
            owner[storage.id] = whose
        else:
            bundles[key] = replace(known, nbytes=known.nbytes + _rounded(storage.nbytes))
    return list(bundles.values()), owner


def _moved(bundler: _Bundler, storage: Storage) -> tuple[int | None, int | None]:
    """First and last operator of a storage among the few; (None, None) if no state has it."""
    born, died = storage.born, storage.died
    birth = _span(bundler, born) if born >= 0 else None
    death = _span(bundler, died - 1) if died is not None and died > 0 else None
    at_birth, at_death = -1, None if died is None else 0
    if birth is not None:
        at_birth = birth.middle if born <= birth.peak else birth.last
    if death is not None and died is not None:
        at_death = death.middle if died <= death.peak else death.last
        if birth is death and birth is not None:
            if not born <= birth.peak < died:
                return None, None
            at_death = birth.last
    elif died is not None and died > 0:
        at_death = len(bundler.ops)
    return at_birth, at_death


def _span(bundler: _Bundler, index: int) -> _Span | None:
    """The block that holds a captured operator; marks count to the block before them."""
    found = None
    for span in bundler.places:
        if span.first <= index:
            found = span
    return found if found is not None and index <= found.end else None
