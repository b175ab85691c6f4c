"""A stage while a rank's step is composed: where its blocks go, and whose memory is whose."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from gpuscope.program.pipeline.blocks import FIRST, LATER, MARK, SHARED, BlockKey, StageBlocks
from gpuscope.program.pipeline.script import Turn
from gpuscope.program.types import Category, Op, Storage, TensorSpec

__all__ = ["Numbers", "PlacedStage"]

_FIELDS = tuple(f.name for f in fields(Op))


class Numbers:
    """Gives out storage numbers."""

    def __init__(self) -> None:
        self.last = -1

    def __call__(self) -> int:
        """The next number."""
        self.last += 1
        return self.last


Template = tuple[dict[str, Any], bool]
"""An operator's fields, and whether memory of one microbatch is among its tensors."""


class PlacedStage:
    """One stage while it is composed: whose its memory is, and where its blocks were put.

    Attributes:
        first: the microbatch that came first; -1 before it came.
        after: where each microbatch's last pass ended.
        used: first operator that names a storage.
        sent: last transfer that reads a storage.
    """

    def __init__(self, blocks: StageBlocks, numbers: Numbers) -> None:
        self.blocks = blocks
        self.first = -1
        self.after: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self._numbers = numbers
        self._shared: dict[int, int] = {}
        self._own: dict[tuple[int, int], int] = {}
        self._specs: dict[int, TensorSpec] = {}
        self._kept: dict[BlockKey, list[Template]] = {}
        self._starts: dict[tuple[BlockKey, int], int] = {}
        self._ends: dict[BlockKey, tuple[int, int]] = {}
        self._at = _places(blocks)

    def key_of(self, turn: Turn) -> BlockKey:
        """The block that a turn runs. The microbatch that comes first runs the first one's."""
        return turn.kind, self.variant(turn.microbatch)

    def variant(self, microbatch: int) -> int:
        """Which of the two captured microbatches one is like."""
        if microbatch < 0:
            return SHARED
        if self.first < 0:
            self.first = microbatch
        return FIRST if microbatch == self.first else LATER

    def begins(self, key: BlockKey, microbatch: int, start: int) -> None:
        """A block is put here; what it names is used from here on, if not before."""
        self._starts[key, microbatch] = start
        if key not in self._ends:
            for offset, (values, _) in enumerate(self.templates(key)):
                for spec in (*values["inputs"], *values["outputs"]):
                    whose = self.blocks.owner.get(spec.storage, SHARED)
                    if whose == SHARED:
                        self.used.setdefault(self.number(spec.storage, -1), start + offset)
        first = self._ends.get(key, (start, start))[0]
        self._ends[key] = first, start

    def number(self, storage: int, microbatch: int) -> int:
        """The number of a captured storage as a microbatch has it."""
        if storage < 0:
            return storage
        if self.blocks.owner.get(storage, SHARED) == SHARED or microbatch < 0:
            if storage not in self._shared:
                self._shared[storage] = self._numbers()
            return self._shared[storage]
        key = (storage, microbatch)
        if key not in self._own:
            self._own[key] = self._numbers()
        return self._own[key]

    def spec(self, spec: TensorSpec, microbatch: int) -> TensorSpec:
        """A captured tensor as a microbatch has it."""
        own = self.blocks.owner.get(spec.storage, SHARED) != SHARED and microbatch >= 0
        if own:
            return replace_storage(spec, self.number(spec.storage, microbatch))
        made = self._specs.get(id(spec))
        if made is None:
            made = self._specs[id(spec)] = replace_storage(spec, self.number(spec.storage, -1))
        return made

    def templates(self, key: BlockKey) -> list[Template]:
        """The operators of a block, marks left out."""
        if key not in self._kept:
            first, end = self.blocks.spans.get(key, (0, 0))
            ops = (op for op in self.blocks.program.ops[first:end] if op.name != MARK)
            self._kept[key] = [self._template(op) for op in ops]
        return self._kept[key]

    def _template(self, op: Op) -> Template:
        values = {name: getattr(op, name) for name in _FIELDS}
        owner = self.blocks.owner
        return values, any(
            owner.get(spec.storage, SHARED) != SHARED for spec in (*op.inputs, *op.outputs)
        )

    def place(self, index: int, microbatch: int) -> int | None:
        """Where a captured operator went for a microbatch; None if nowhere.

        Of a pass that many microbatches made, it is the first one's where `microbatch` is -1.
        """
        key, offset = self._at[index]
        return self._put(key, offset, microbatch, False)

    def freed(self, index: int, microbatch: int) -> int | None:
        """As `place`, for memory that is freed before a captured operator: after the one before."""
        key, offset = self._at[index - 1]
        offset += self.blocks.program.ops[index - 1].name != MARK
        return self._put(key, offset, microbatch, True)

    def _put(self, key: BlockKey, offset: int, microbatch: int, last: bool) -> int | None:
        if key[1] != SHARED and microbatch >= 0:
            if key[1] != self.variant(microbatch):
                return None
            start = self._starts.get((key, microbatch))
        else:
            ends = self._ends.get(key)
            start = None if ends is None else ends[last]
        return None if start is None else start + offset

    def storages(self, ops: int) -> list[Storage]:
        """All memory of the stage, born and freed where its blocks were put."""
        out: list[Storage] = []
        twins = self.blocks.left_behind
        replaced = {twin.id for twin in twins.values()}
        for storage in self.blocks.program.storages:
            whose = self.blocks.owner.get(storage.id, SHARED)
            if storage.id in replaced or storage.id in self.blocks.unused:
                continue
            if whose == SHARED:
                out.append(self._life(storage, -1, ops))
                continue
            for microbatch in sorted(self.after):
                if self.variant(microbatch) != whose:
                    continue
                out.append(self._life(storage, microbatch, ops))
                if storage.id in twins:
                    twin = self._life(twins[storage.id], -1, ops)
                    out.append(replace(twin, id=self._numbers()))
        return out

    def _life(self, storage: Storage, microbatch: int, ops: int) -> Storage:
        number = self.number(storage.id, microbatch)
        born, died = storage.born, storage.died
        if born >= 0:
            found = self.place(born, microbatch)
            used = self.used.get(number, ops)
            born = used if found is None else min(found, used)
        if died is not None:
            found = self.freed(died, microbatch) if died else 0
            # Else it is a variable that the next microbatch's pass replaces.
            died = self.after.get(microbatch, ops) if found is None else found
            died = max(died, self.sent.get(number, -1) + 1)
        return replace(
            storage, id=number, born=born, died=died, category=self._category(storage, microbatch)
        )

    def _category(self, storage: Storage, microbatch: int) -> Category:
        """What memory holds. The capture takes for temporary what the second forward keeps."""
        if microbatch < 0:
            return storage.category
        if storage.born < 0:
            return "communication"
        if storage.category == "temporary" and self._at[storage.born][0][0] == "forward":
            if storage.died is None:
                return "activation"
            if self._at[storage.died - 1][0] != self._at[storage.born][0]:
                return "activation"
        return storage.category


def _places(blocks: StageBlocks) -> list[tuple[BlockKey, int]]:
    """The block of every captured operator, and how many of its operators come before it."""
    out: list[tuple[BlockKey, int]] = []
    starts = {first: key for key, (first, _) in blocks.spans.items()}
    key, offset = ("begin", SHARED), 0
    for op in blocks.program.ops:
        if op.index + 1 in starts:
            key, offset = starts[op.index + 1], 0
        out.append((key, offset))
        offset += op.name != MARK
    return out


def replace_storage(spec: TensorSpec, storage: int) -> TensorSpec:
    """The same tensor in another storage."""
    return TensorSpec(spec.shape, spec.stride, spec.dtype, spec.device, storage, spec.pinned)
