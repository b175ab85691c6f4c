"""A captured stage taken apart: its blocks, and which memory belongs to one microbatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.pipeline.kept import block_of, merge_kept
from gpuscope.program.types import Op, Phase, Program, Storage, TensorSpec

__all__ = ["FIRST", "LATER", "MARK", "SHARED", "BlockKey", "StageBlocks", "read_blocks"]

MARK = "gpuscope::mark"
"""An operator that does nothing: it says in the capture where a block begins."""

FIRST, LATER, SHARED = 0, 1, -1
"""Whose a block or a storage is: the first microbatch's, any later one's, or the whole step's."""

BlockKey = tuple[str, int]
"""Kind of block ("forward", "reduce", ...), and FIRST, LATER or SHARED."""

Received = Literal["activation", "gradient"]

_PASSES = ("forward", "backward", "backward_input", "backward_weight")
_PHASES: Mapping[str, Phase] = {
    "forward": "forward",
    "backward": "backward",
    "backward_input": "backward",
    "backward_weight": "backward",
}
"""A pass tells the phase better than the capture, which has autograd's nodes to go by: adding to a
gradient by hand is backward work, too."""

_SUMS = ("c10d::_reduce_scatter_base_", "c10d::allreduce_")
"""How FSDP2 sums a unit's gradients; tensor parallel ranks sum theirs by functional calls."""

_SENDS = {"send_activation": "activation", "send_gradient": "gradient"}
_RECEIVES = {"forward": "activation", "backward": "gradient", "backward_input": "gradient"}


@dataclass(frozen=True, slots=True)
class StageBlocks:
    """One stage, captured over two microbatches (`gpuscope.program.pipeline.stage_step`).

    Attributes:
        program: what was captured, marks included.
        spans: operators [first, end) of each block.
        sends: tensors that a microbatch's pass sends on, by payload and FIRST or LATER.
        receives: buffers that a pass receives into, likewise.
        owner: FIRST or LATER for storages of one microbatch, SHARED for the others; by storage.
        left_behind: what the step before left of a microbatch and this step frees, by the storage
            that this step leaves in its place.
        unused: memory that was there only to tell shapes.
        units: parts whose gradients are summed over ranks one after the other (FSDP's units).
    """

    program: Program
    spans: Mapping[BlockKey, tuple[int, int]]
    sends: Mapping[tuple[str, int], tuple[TensorSpec, ...]]
    receives: Mapping[tuple[str, int], tuple[TensorSpec, ...]]
    owner: Mapping[int, int] = field(default_factory=dict)
    left_behind: Mapping[int, Storage] = field(default_factory=dict)
    unused: frozenset[int] = frozenset()
    units: int = 1

    @property
    def split(self) -> bool:
        """Whether the backward is split into that of inputs and that of weights."""
        return ("backward_weight", LATER) in self.spans

    def block_at(self, index: int) -> BlockKey | None:
        """The block that holds an operator (marks count to the block that they begin)."""
        return block_of(self.spans, index)


def read_blocks(program: Program) -> StageBlocks:
    """Take a captured stage apart at its marks.

    Raises:
        WorkloadError: the program has not the marks of a stage.
    """
    spans: dict[BlockKey, tuple[int, int]] = {}
    sends: dict[tuple[str, int], tuple[TensorSpec, ...]] = {}
    receives: dict[tuple[str, int], tuple[TensorSpec, ...]] = {}
    open_at: tuple[BlockKey, int] | None = None
    for op in program.ops:
        if op.name != MARK:
            continue
        kind, microbatch = str(op.args["kind"]), int(str(op.args["microbatch"]))
        if kind in _SENDS:
            sends[_SENDS[kind], microbatch] = op.inputs
            continue
        if open_at is not None:
            spans[open_at[0]] = (open_at[1], op.index)
        open_at = ((kind, microbatch), op.index + 1)
        if kind in _RECEIVES and op.inputs:
            receives[_RECEIVES[kind], microbatch] = op.inputs
    if ("forward", LATER) not in spans or ("finish", SHARED) not in spans:
        raise WorkloadError(
            Text("'{program}' is not a stage of a pipeline.", program=program.name),
            Text("Its step does not run two marked microbatches."),
            Text("Build it with gpuscope.program.pipeline.stage_step."),
        )
    program = replace(program, ops=_with_phases(program.ops, spans))
    program = merge_kept(program, spans)
    blocks = StageBlocks(program, spans, sends, receives)
    owner = _owners(blocks)
    return StageBlocks(
        program,
        spans,
        sends,
        receives,
        owner,
        _left_behind(program, owner),
        _unused(program),
        _units(program.ops, spans),
    )


def _units(ops: tuple[Op, ...], spans: Mapping[BlockKey, tuple[int, int]]) -> int:
    first, end = spans.get(("reduce", SHARED), (0, 0))
    return max(1, sum(op.name in _SUMS for op in ops[first:end]))


def _with_phases(ops: tuple[Op, ...], spans: Mapping[BlockKey, tuple[int, int]]) -> tuple[Op, ...]:
    out = [replace(op, phase="other") if op.name == MARK else op for op in ops]
    for (kind, _), (first, end) in spans.items():
        phase = _PHASES.get(kind)
        for index in range(first, end):
            if phase is not None and out[index].phase != phase and out[index].name != MARK:
                out[index] = replace(out[index], phase=phase)
    return tuple(out)


def _owners(blocks: StageBlocks) -> dict[int, int]:
    """Whose each storage is, by the blocks that use it.

    What only one microbatch's passes use is that microbatch's. What is there before the step and
    stays is one microbatch's only where it is its receive buffer: a parameter that one pass alone
    happens to use is not copied for each.
    """
    users: dict[int, set[int]] = {}
    born = {s.id: s.born for s in blocks.program.storages}
    for (kind, variant), (first, end) in blocks.spans.items():
        whose = variant if kind in _PASSES else SHARED
        for op in blocks.program.ops[first:end]:
            for spec in (*op.inputs, *op.outputs):
                users.setdefault(spec.storage, set()).add(whose)
    owner = {
        storage: next(iter(whose)) if len(whose) == 1 and born.get(storage, 0) >= 0 else SHARED
        for storage, whose in users.items()
    }
    for (_, variant), specs in blocks.receives.items():
        owner.update({spec.storage: variant for spec in specs})
    for storage in blocks.program.storages:
        owner.setdefault(storage.id, _born_in(blocks, storage))
    return owner


def _born_in(blocks: StageBlocks, storage: Storage) -> int:
    """Whose a storage is that no operator of a block names (workspace, what a mark alone saw)."""
    key = blocks.block_at(storage.born) if storage.born >= 0 else None
    return key[1] if key is not None and key[0] in _PASSES else SHARED


def _left_behind(program: Program, owner: Mapping[int, int]) -> dict[int, Storage]:
    """Pair what outlives the step, of one microbatch, with its like of the step before."""
    freed = [s for s in program.storages if s.born < 0 and s.died is not None]
    pairs: dict[int, Storage] = {}
    for storage in program.storages:
        if storage.born >= 0 and storage.died is None and owner[storage.id] != SHARED:
            like = next((s for s in freed if s.nbytes == storage.nbytes), None)
            if like is not None:
                freed.remove(like)
                pairs[storage.id] = like
    return pairs


def _unused(program: Program) -> frozenset[int]:
    """Inputs that no operator reads and no mark names: examples that told a stage its shapes."""
    used = {spec.storage for op in program.ops for spec in (*op.inputs, *op.outputs)}
    return frozenset(s.id for s in program.storages if s.category == "input" and s.id not in used)
