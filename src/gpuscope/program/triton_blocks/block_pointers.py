"""Block pointers and tensor descriptors: a corner, sizes and strides instead of many pointers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuscope.program.triton_blocks.values import BOOL, Block, binary


@dataclass(frozen=True)
class BlockPointer:
    """`tl.make_block_ptr`: a block at an offset of an array.

    Attributes:
        base: where the array begins.
        shape, strides, offsets: of the array and of the block in it, in elements.
        block_shape: of the block.
    """

    base: Block
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        """Of the pointer."""
        return self.base.dtype

    def advanced(self, by: tuple[Any, ...]) -> BlockPointer:
        """Moved by so many elements in each dimension."""
        return replace(self, offsets=tuple(o + b for o, b in zip(self.offsets, by, strict=True)))

    def spread(self) -> tuple[Block, Block]:
        """One pointer for each element, and which of them lie in the array."""
        rank, tally = len(self.block_shape), self.base.tally
        inside: Any = np.ones(self.block_shape, dtype=bool)
        pointers = self.base
        for d, (size, stride, offset) in enumerate(
            zip(self.shape, self.strides, self.offsets, strict=True)
        ):
            steps = np.arange(self.block_shape[d], dtype=np.int64)
            at = tally.block(offset)
            row = binary("add", Block(tally, steps.shape, at.dtype, steps), at)
            row = row.reshaped(tuple(len(steps) if e == d else 1 for e in range(rank)))
            moved = binary("mul", row, tally.block(stride))
            pointers = binary("add", pointers, moved)
            if not row.drawn and row.data is not None:
                inside = inside & (row.data >= 0) & (row.data < int(tally.block(size)))
        return pointers.broadcast(self.block_shape), Block(tally, self.block_shape, BOOL, inside)


class Descriptor:
    """A tensor descriptor: loads and stores blocks of an array at offsets.

    Args:
        base, shape, strides, block_shape: as of a block pointer.
    """

    def __init__(
        self,
        base: Block,
        shape: tuple[Any, ...],
        strides: tuple[Any, ...],
        block_shape: tuple[int, ...],
    ) -> None:
        self.base, self.shape, self.strides, self.block_shape = base, shape, strides, block_shape

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self.base.dtype.element_ty

    def _at(self, offsets: Any) -> BlockPointer:
        given = (self.base, self.shape, self.strides, tuple(offsets), self.block_shape)
        return BlockPointer(*given)

    def load(self, offsets: Any) -> Block:
        """The block at these offsets."""
        return self.base.tally.language("load")(self._at(offsets))  # type: ignore[no-any-return]

    def store(self, offsets: Any, value: Any) -> None:
        """Write the block at these offsets."""
        self.base.tally.language("store")(self._at(offsets), value)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Add to the block at these offsets."""
        pointers, mask = self._at(offsets).spread()
        self.base.tally.language("atomic_add")(pointers, value, mask)
