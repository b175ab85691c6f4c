"""The part of Triton's language that moves elements about: shapes, halves, block pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuscope.program.triton_blocks.block_pointers import BlockPointer, Descriptor
from gpuscope.program.triton_blocks.tally import Tally
from gpuscope.program.triton_blocks.values import INT32, Block, DType, binary, promoted

RESHAPING: dict[str, Callable[..., Any]] = {}
"""By Triton's name."""


def _named(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RESHAPING[name] = function
        return function

    return register


def int_of(value: Any) -> int:
    """A number, also of a scalar block or a constant."""
    return int(getattr(value, "value", value))


def shape_of(value: Any) -> tuple[int, ...]:
    """Sizes, however they are given."""
    value = getattr(value, "value", value) if not isinstance(value, (tuple, list)) else value
    sizes = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(int_of(size) for size in sizes)


def unknown(tally: Tally, shape: tuple[int, ...], dtype: DType) -> Block:
    """A result that data decides."""
    if dtype.kind == "int":
        return Block(tally, shape, dtype, tally.draw(shape), drawn=True)
    return Block(tally, shape, dtype)


@_named("reshape", "view")
def reshape(tally: Tally, x: Block, *shape: Any, **_: Any) -> Block:
    """The same elements in another shape."""
    return x.reshaped(shape_of(shape[0] if len(shape) == 1 else shape))


@_named("ravel")
def ravel(tally: Tally, x: Block, *_: Any, **__: Any) -> Block:
    """All elements in a row."""
    return x.reshaped((x.numel,))


@_named("broadcast_to")
def broadcast_to(tally: Tally, x: Any, *shape: Any, **_: Any) -> Block:
    """Repeated to a shape."""
    return tally.block(x).broadcast(shape_of(shape[0] if len(shape) == 1 else shape))


@_named("broadcast")
def broadcast(tally: Tally, x: Block, y: Block) -> tuple[Block, Block]:
    """Both to a common shape."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    return x.broadcast(shape), y.broadcast(shape)


@_named("expand_dims")
def expand_dims(tally: Tally, x: Block, axis: Any) -> Block:
    """With dimensions of one."""
    shape = list(x.shape)
    for one in sorted(shape_of(axis)):
        shape.insert(one % (len(shape) + 1), 1)
    return x.reshaped(tuple(shape))


@_named("trans", "permute")
def trans(tally: Tally, x: Block, *order: Any) -> Block:
    """Dimensions in another order; the last two swapped where none is given."""
    rank = len(x.shape)
    given = shape_of(order[0] if len(order) == 1 else order) if order else ()
    return x.permuted(given or (*range(rank - 2), rank - 1, rank - 2))


@_named("join", "interleave", "cat")
def join(tally: Tally, x: Block, y: Block, *_: Any, **__: Any) -> Block:
    """Two blocks as one."""
    return unknown(tally, (*x.shape, 2), promoted(x.dtype, y.dtype))


RESHAPING["interleave"] = RESHAPING["cat"] = lambda tally, x, y, *_, **__: unknown(
    tally, (*x.shape[:-1], x.shape[-1] * 2), promoted(x.dtype, y.dtype)
)


@_named("split")
def split(tally: Tally, x: Block) -> tuple[Block, Block]:
    """One block as two."""
    return tuple(unknown(tally, x.shape[:-1], x.dtype) for _ in range(2))  # type: ignore[return-value]


@_named("gather")
def gather(tally: Tally, x: Block, index: Block, axis: Any = 0) -> Block:
    """Elements of a block by number."""
    return unknown(tally, index.shape, x.dtype)


@_named("histogram")
def histogram(tally: Tally, x: Block, bins: Any, *_: Any, **__: Any) -> Block:
    """How often each number is there."""
    tally.arithmetic("histogram", x.numel)
    return unknown(tally, (int_of(bins),), INT32)


@_named("swizzle2d")
def swizzle2d(tally: Tally, i: Any, j: Any, size_i: Any, size_j: Any, group: Any) -> Any:
    """Numbers of tiles, reordered so that groups of rows stay together."""
    ij = i * size_j + j
    size_gj = group * size_j
    first = ij // size_gj * group
    rows = binary("minimum", tally.block(size_i - first), tally.block(group))
    ij = ij % size_gj
    return first + ij % rows, ij // rows


# ---- block pointers and descriptors --------------------------------------------------------


@_named("make_block_ptr")
def make_block_ptr(
    tally: Tally, base: Block, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> BlockPointer:
    """A pointer to a block of a larger array."""
    return BlockPointer(base, tuple(shape), tuple(strides), tuple(offsets), shape_of(block_shape))


@_named("advance")
def advance(tally: Tally, pointer: BlockPointer, offsets: Any) -> BlockPointer:
    """The block pointer moved."""
    return pointer.advanced(tuple(offsets))


@_named("make_tensor_descriptor", "_experimental_make_tensor_descriptor")
def make_tensor_descriptor(
    tally: Tally, base: Block, shape: Any, strides: Any, block_shape: Any, *_: Any, **__: Any
) -> Descriptor:
    """A descriptor made on the device."""
    return Descriptor(base, tuple(shape), tuple(strides), shape_of(block_shape))


@_named("load_tensor_descriptor")
def load_tensor_descriptor(tally: Tally, descriptor: Descriptor, offsets: Any) -> Block:
    """As the method."""
    return descriptor.load(offsets)


@_named("store_tensor_descriptor")
def store_tensor_descriptor(tally: Tally, at: Descriptor, offsets: Any, value: Any) -> None:
    """As the method."""
    at.store(offsets, value)
