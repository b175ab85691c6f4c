"""Triton's language for one followed program: what each function does to shapes and counts.

Semantics are those of triton.language (triton-lang/triton, python/triton/language/core.py and
standard.py, 3.x). Functions take the program's tally first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.program.triton_blocks.block_pointers import BlockPointer
from gpuscope.program.triton_blocks.reshaping import RESHAPING, int_of, shape_of, unknown
from gpuscope.program.triton_blocks.tally import Tally
from gpuscope.program.triton_blocks.values import (
    FLOAT32,
    INT32,
    Block,
    NotFollowedError,
    binary,
    promoted,
)

FUNCTIONS: dict[str, Callable[..., Any]] = dict(RESHAPING)
"""By Triton's name."""

SPECIAL = (
    "exp exp2 log log2 sqrt rsqrt sin cos erf sigmoid floor ceil abs tanh sqrt_rn log1p expm1 "
    "softmax flip sort cumsum cumprod associative_scan bitonic_merge"
).split()
"""Functions of one block, element by element (or as good as)."""

NOTHING = (
    "static_assert static_print device_print device_assert debug_barrier assume inline_asm "
    "print gdc_wait gdc_launch_dependents"
).split()
HINTS = "multiple_of max_contiguous max_constancy".split()
REDUCED = "sum max min xor_sum reduce_or".split()
ATOMICS = "atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg".split()


def _named(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


@_named("program_id")
def program_id(tally: Tally, axis: Any) -> Block:
    """Number of the program along an axis."""
    return Block(tally, (), INT32, np.int64(tally.program[int_of(axis)]))


@_named("num_programs")
def num_programs(tally: Tally, axis: Any) -> Block:
    """How many programs there are along an axis."""
    return Block(tally, (), INT32, np.int64(tally.grid[int_of(axis)]))


@_named("arange")
def arange(tally: Tally, start: Any, end: Any) -> Block:
    """Whole numbers in order."""
    first, last = int_of(start), int_of(end)
    return Block(tally, (last - first,), INT32, np.arange(first, last, dtype=np.int64))


@_named("full", "zeros", "ones")
def full(tally: Tally, shape: Any, *rest: Any, **named: Any) -> Block:
    """A block of one value; `zeros` and `ones` take no value."""
    dtype = named.get("dtype", rest[-1] if rest else FLOAT32)
    kind, sizes = tally.as_dtype(dtype), shape_of(shape)
    value = named.get("value", rest[0] if len(rest) > 1 else 0)
    value = tally.block(value).data
    if kind.kind == "float" or value is None:
        return Block(tally, sizes, kind)
    return Block(tally, sizes, kind, np.full(sizes, value))


@_named("zeros_like")
def zeros_like(tally: Tally, x: Block) -> Block:
    """As `full`."""
    return full(tally, x.shape, x.dtype)  # type: ignore[no-any-return]


@_named("cdiv")
def cdiv(tally: Tally, a: Any, b: Any) -> Any:
    """Quotient, rounded up."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    a = tally.block(a)
    return (a + (b - 1)) // b


@_named("next_power_of_2")
def next_power_of_2(tally: Tally, n: Any) -> int:
    """As Triton says it."""
    return int(1 << (max(1, int_of(n)) - 1).bit_length())


@_named("load")
def load(tally: Tally, at: Any, mask: Any = None, other: Any = None, *rest: Any, **_: Any) -> Block:
    """Read through pointers; whole numbers that are known keep their values."""
    tally.step()
    if isinstance(at, BlockPointer):
        at, mask = at.spread()
    pointers, on = _pointers(at), None if mask is None else tally.block(mask)
    tally.access("load", pointers, on)
    element = pointers.dtype.element_ty
    assert element is not None
    shape = pointers.shape if on is None else np.broadcast_shapes(pointers.shape, on.shape)
    if element.kind == "float":
        return Block(tally, shape, element)
    values = tally.arguments[pointers.tensor].values
    if values is not None and not pointers.drawn:
        at = np.clip(np.asarray(pointers.data) // max(1, element.bits // 8), 0, len(values) - 1)
        return Block(tally, shape, element, np.broadcast_to(values[at], shape))
    if element.kind == "bool":
        return Block(tally, shape, element)
    return Block(tally, shape, element, tally.draw(shape), drawn=True)


@_named("store")
def store(tally: Tally, at: Any, value: Any, mask: Any = None, *rest: Any, **_: Any) -> None:
    """Write through pointers."""
    tally.step()
    if isinstance(at, BlockPointer):
        at, mask = at.spread()
    pointers = _pointers(at)
    if isinstance(value, Block) and value.shape != pointers.shape:
        shape = np.broadcast_shapes(value.shape, pointers.shape)
        pointers = pointers.broadcast(shape)
    tally.access("store", pointers, None if mask is None else tally.block(mask))


def _atomic(tally: Tally, at: Any, value: Any, mask: Any = None, *rest: Any, **_: Any) -> Block:
    pointers = _pointers(at)
    tally.access("atomic", pointers, None if mask is None else tally.block(mask))
    element = pointers.dtype.element_ty
    assert element is not None
    drawn = element.kind == "int"
    data = tally.draw(pointers.shape) if drawn else None
    return Block(tally, pointers.shape, element, data, drawn=drawn)


FUNCTIONS.update(dict.fromkeys(ATOMICS, _atomic))


@_named("atomic_cas")
def atomic_cas(tally: Tally, at: Any, cmp: Any, value: Any, *_: Any, **__: Any) -> Block:
    """A lock is found open."""
    _atomic(tally, at, value)
    tally.assume("branches")
    return tally.block(cmp)


def _pointers(at: Any) -> Block:
    if not isinstance(at, Block):
        raise NotFollowedError(Text("It uses a number as an address."))
    return at


@_named("dot")
def dot(
    tally: Tally, a: Block, b: Block, acc: Any = None, input_precision: Any = None,
    allow_tf32: Any = None, max_num_imprecise_acc: Any = None, out_dtype: Any = FLOAT32,
) -> Block:  # fmt: skip
    """A product of blocks on the matrix units; float32 as TF32, unless "ieee" is asked for."""
    tally.step()
    *batch, m, k = a.shape
    n = b.shape[-1]
    if b.shape[-2] != k:
        raise NotFollowedError(
            Text("It multiplies blocks of {a} and {b}.", a=str(a.shape), b=str(b.shape))
        )
    name = a.dtype.name
    if name == "float32":
        exact = getattr(input_precision, "value", input_precision) == "ieee" or allow_tf32 is False
        name = "float32" if exact else "tf32"
    size = math.prod(batch)
    operands = (m * k * a.dtype.bits + k * n * b.dtype.bits) // 8
    tally.dot(name, 2.0 * size * m * n * k, operands, size * m * n)
    kind = acc.dtype if isinstance(acc, Block) else tally.as_dtype(out_dtype)
    return Block(tally, (*batch, m, n), kind)


@_named("dot_scaled")
def dot_scaled(tally: Tally, a: Block, a_scale: Any, a_format: Any, b: Block, *rest: Any, **k: Any):  # type: ignore[no-untyped-def]
    """A product of blocks with scales of their own."""
    return dot(tally, a, b)


def _reduced(tally: Tally, x: Block, axis: Any = None, *rest: Any, **named: Any) -> Any:
    tally.step()
    tally.arithmetic("reduce", x.numel)
    keep = bool(named.get("keep_dims", False))
    if axis is None:
        shape: tuple[int, ...] = (1,) * len(x.shape) if keep else ()
    else:
        at = int_of(axis) % len(x.shape)
        shape = (*x.shape[:at], *((1,) if keep else ()), *x.shape[at + 1 :])
    out = unknown(tally, shape, x.dtype)
    return (out, unknown(tally, shape, INT32)) if named.get("return_indices") else out


FUNCTIONS.update(dict.fromkeys(REDUCED, _reduced))


@_named("argmax", "argmin")
def argmax(tally: Tally, x: Block, axis: Any = None, *rest: Any, **named: Any) -> Any:
    """Where the largest is."""
    return _reduced(tally, x.like(INT32), axis, **named)


@_named("reduce")
def reduce(tally: Tally, x: Any, axis: Any, function: Any = None, **named: Any) -> Any:
    """A reduction by a function of the user's own."""
    if isinstance(x, tuple):
        return tuple(_reduced(tally, one, axis, **named) for one in x)
    return _reduced(tally, x, axis, **named)


def _elementwise(name: str) -> Callable[..., Any]:
    def function(tally: Tally, x: Any, *rest: Any, **_: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(function(tally, one) for one in x)
        x = tally.block(x)
        tally.step()
        tally.arithmetic(name, x.numel)
        dtype = x.dtype if x.dtype.kind == "float" or name in _KEEP else FLOAT32
        known = x.data if name == "abs" and x.data is not None else None
        if known is not None:
            return Block(tally, x.shape, dtype, np.abs(known), drawn=x.drawn)
        return unknown(tally, x.shape, dtype)

    return function


_KEEP = frozenset({"abs", "flip", "sort", "cumsum", "cumprod", "associative_scan", "bitonic_merge"})
FUNCTIONS.update({name: _elementwise(name) for name in SPECIAL})
FUNCTIONS.update(dict.fromkeys(NOTHING, lambda tally, *_, **__: None))
FUNCTIONS.update(dict.fromkeys(HINTS, lambda tally, x, *_, **__: x))


@_named("where")
def where(tally: Tally, condition: Any, x: Any, y: Any) -> Any:
    """One or the other."""
    c = tally.block(condition)
    first = x if isinstance(x, Block) else None
    second = y if isinstance(y, Block) else None
    x = tally.block(x, None if second is None else second.dtype)
    y = tally.block(y, None if first is None else first.dtype)
    shape = np.broadcast_shapes(c.shape, x.shape, y.shape)
    dtype = promoted(x.dtype, y.dtype)
    if dtype.kind == "pointer" or dtype.kind == "float":
        tally.arithmetic("where", math.prod(shape) if dtype.kind == "float" else 0)
        chosen = x if x.dtype.kind == "pointer" else y
        return Block(tally, shape, dtype) if dtype.kind == "float" else chosen.broadcast(shape)
    if c.data is None or c.drawn:
        return x.broadcast(shape)
    if x.data is None or y.data is None:
        return unknown(tally, shape, dtype)
    return Block(tally, shape, dtype, np.where(c.data, x.data, y.data), drawn=x.drawn or y.drawn)


@_named("minimum", "maximum")
def minimum(tally: Tally, x: Any, y: Any, *_: Any, **__: Any) -> Block:
    """The smaller; replaced below for the larger."""
    x = tally.block(x, y.dtype if isinstance(y, Block) else None)
    return binary("minimum", x, tally.block(y, x.dtype))


FUNCTIONS["maximum"] = lambda tally, x, y, *_, **__: binary(
    "maximum",
    tally.block(x, y.dtype if isinstance(y, Block) else None),
    tally.block(y, x.dtype if isinstance(x, Block) else None),
)


@_named("clamp", "fma", "fdiv", "div_rn", "umulhi", "pow", "cat_values", "atan2", "fast_dividef")
def several(tally: Tally, *given: Any, **_: Any) -> Block:
    """A function of several blocks, element by element."""
    blocks = [tally.block(x) for x in given]
    shape = np.broadcast_shapes(*(b.shape for b in blocks))
    tally.arithmetic("div", math.prod(shape))
    return unknown(tally, shape, blocks[0].dtype)


@_named("cast", "to")
def cast(tally: Tally, x: Any, dtype: Any, *_: Any, **__: Any) -> Block:
    """As the method."""
    out: Block = tally.block(x).to(dtype)
    return out


@_named("rand", "randn", "rand4x", "randint", "randint4x")
def rand(tally: Tally, seed: Any, offset: Any, *_: Any, **__: Any) -> Block:
    """Random numbers by Philox."""
    offset = tally.block(offset)
    tally.arithmetic("random", offset.numel)
    return Block(tally, offset.shape, FLOAT32)


FUNCTIONS["randint"] = lambda tally, seed, offset, *_, **__: unknown(
    tally, rand(tally, seed, offset).shape, INT32
)
for _name, _one in (("rand4x", "rand"), ("randint4x", "randint")):
    FUNCTIONS[_name] = lambda tally, seed, offset, _one=_one, *_, **__: tuple(
        FUNCTIONS[_one](tally, seed, offset) if n == 0 else Block(tally, offset.shape, FLOAT32)
        for n in range(4)
    )


# ---- loops ---------------------------------------------------------------------------------


@_named("range")
def range_(tally: Tally, *bounds: Any, **_: Any) -> Iterator[Block]:
    """A loop of the device; its rounds that load are counted."""
    for at in range(*(int_of(b) for b in bounds)):
        before = tally.accesses
        yield Block(tally, (), INT32, np.int64(at))
        tally.rounds += tally.accesses > before
        if tally.first_only:
            return


@_named("static_range")
def static_range(tally: Tally, *bounds: Any, **_: Any) -> Iterator[int]:
    """A loop that the compiler unrolls."""
    yield from range(*(int_of(b) for b in bounds))


def function_named(name: str, *, library: bool = False) -> Callable[..., Any]:
    """A function of the language; of libraries of mathematics, any.

    Raises:
        NotFollowedError: it is not known.
    """
    found = FUNCTIONS.get(name)
    if found is not None:
        return found
    if library:
        return several if name in ("pow", "fmod", "hypot", "copysign") else _elementwise(name)
    raise NotFollowedError(Text("tl.{name} is not followed.", name=name))
