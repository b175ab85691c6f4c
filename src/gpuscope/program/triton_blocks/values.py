"""Values of a Triton program as far as its work follows from them: blocks of whole numbers.

Whole numbers and masks that come from program numbers, sizes and ranges are known, and so are the
addresses made of them. What a kernel loads is not: floating-point blocks have a shape and a type
only; loaded whole numbers are drawn evenly (they end up as row numbers of a gather); a comparison
of unknown values is taken as true.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.triton_blocks.tally import Tally


class NotFollowedError(Exception):
    """The kernel does something that is not followed.

    Args:
        why: for the user.
    """

    def __init__(self, why: Text) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(frozen=True)
class DType:
    """A type of Triton's.

    Attributes:
        name: torch's name, "bfloat16"; "pointer" for a pointer.
        bits: of one element.
        kind: "float", "int", "bool", or "pointer".
        element_ty: what a pointer points to.
    """

    name: str
    bits: int
    kind: str
    element_ty: DType | None = None

    @property
    def scalar(self) -> DType:
        """Its elements' type: itself."""
        return self

    @property
    def primitive_bitwidth(self) -> int:
        """Triton's name for the bits."""
        return self.bits

    def is_floating(self) -> bool:
        """As Triton says it."""
        return self.kind == "float"

    def is_ptr(self) -> bool:
        """As Triton says it."""
        return self.kind == "pointer"

    def is_int(self) -> bool:
        """As Triton says it."""
        return self.kind in ("int", "bool")


_FLOATS = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
}
DTYPES: dict[str, DType] = {name: DType(name, bits, "float") for name, bits in _FLOATS.items()}
for _bits in (8, 16, 32, 64):
    DTYPES[f"int{_bits}"] = DType(f"int{_bits}", _bits, "int")
    DTYPES[f"uint{_bits}"] = DType(f"uint{_bits}", _bits, "int")
DTYPES["bool"] = DTYPES["int1"] = BOOL = DType("bool", 8, "bool")
INT32, INT64, FLOAT32 = DTYPES["int32"], DTYPES["int64"], DTYPES["float32"]

TRITON_NAMES = {
    "float8e4nv": "float8_e4m3fn",
    "float8e5": "float8_e5m2",
    "float8e4b8": "float8_e4m3fnuz",
    "float8e5b16": "float8_e5m2fnuz",
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "void": "int8",
    **{f"i{n}": f"int{n}" for n in (1, 8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}
"""What Triton calls types otherwise than torch."""


def dtype_named(name: str) -> DType | None:
    """A type by torch's or Triton's name; None if it is none."""
    return DTYPES.get(TRITON_NAMES.get(name, name))


def pointer_to(element: DType) -> DType:
    """The type of a pointer."""
    return DType("pointer", 64, "pointer", element)


class Block:
    """A block of elements, or one.

    Args:
        tally: takes what is done with it.
        shape: () for a scalar.
        dtype: of its elements.
        data: the elements, of this shape; None where they are unknown. Pointers: bytes from
            where their tensor begins.
        tensor: number of the argument that a pointer points into.
        drawn: the elements stand for loaded ones.
    """

    __slots__ = ("data", "drawn", "dtype", "shape", "tally", "tensor")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(
        self,
        tally: Tally,
        shape: tuple[int, ...],
        dtype: DType,
        data: Any = None,
        tensor: int = -1,
        drawn: bool = False,
    ) -> None:
        self.tally, self.shape, self.dtype = tally, shape, dtype
        self.data, self.tensor, self.drawn = data, tensor, drawn
        if data is not None and shape and dtype.kind == "float":
            self.data = None

    # ---- what Triton's tensors answer ----------------------------------------------------

    @property
    def type(self) -> DType:
        """As Triton says it."""
        return self.dtype

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Block:  # noqa: N802 (Triton's name)
        """Transposed."""
        return self.permuted(tuple(reversed(range(len(self.shape)))))

    @property
    def value(self) -> Any:
        """Of a constant."""
        return self.known()

    def __getattr__(self, name: str) -> Any:
        """Functions of the language as methods: `x.sum(0)` is `tl.sum(x, 0)`."""
        if name.startswith("__"):
            raise AttributeError(name)
        function = self.tally.language(name)
        return lambda *args, **kwargs: function(self, *args, **kwargs)

    def __getitem__(self, index: Any) -> Block:
        index = index if isinstance(index, tuple) else (index,)
        shape, at = [], 0
        for one in index:
            if one is None:
                shape.append(1)
            elif isinstance(one, slice) and at < len(self.shape):
                shape.append(self.shape[at])
                at += 1
            else:
                raise NotFollowedError(Text("It indexes a block by numbers."))
        return self.reshaped((*shape, *self.shape[at:]))

    def to(self, dtype: Any, *_: Any, **__: Any) -> Block:
        """Cast."""
        to = self.tally.as_dtype(dtype)
        if to.kind == "pointer":
            if self.dtype.kind != "pointer":
                raise NotFollowedError(Text("It takes pointers from memory."))
            return self.like(to)
        if to.kind == "float" or self.dtype.kind == "float":
            if to != self.dtype:
                self.tally.arithmetic("cast", self.numel)
            known = self.data if not self.shape and to.kind != "bool" else None
            if known is not None and to.kind == "int":
                known = np.int64(known)
            return Block(self.tally, self.shape, to, known)
        if to.kind == "bool" and (self.drawn or self.data is None):
            return Block(self.tally, self.shape, to)
        return self.like(to)

    # ---- shapes --------------------------------------------------------------------------

    def like(self, dtype: DType) -> Block:
        """The same elements as another type."""
        return Block(self.tally, self.shape, dtype, self.data, self.tensor, self.drawn)

    def reshaped(self, shape: tuple[int, ...]) -> Block:
        """The same elements in another shape."""
        if math.prod(shape) != self.numel:
            raise NotFollowedError(
                Text("It makes {to} of a block of {of}.", to=str(shape), of=str(self.shape))
            )
        data = None if self.data is None else np.reshape(self.data, shape)
        return Block(self.tally, shape, self.dtype, data, self.tensor, self.drawn)

    def permuted(self, order: tuple[int, ...]) -> Block:
        """Dimensions in another order."""
        data = None if self.data is None else np.transpose(self.data, order)
        shape = tuple(self.shape[d] for d in order)
        return Block(self.tally, shape, self.dtype, data, self.tensor, self.drawn)

    def broadcast(self, shape: tuple[int, ...]) -> Block:
        """Repeated to a shape."""
        data = None if self.data is None else np.broadcast_to(self.data, shape)
        return Block(self.tally, shape, self.dtype, data, self.tensor, self.drawn)

    # ---- values --------------------------------------------------------------------------

    def known(self) -> Any:
        """The value of a scalar.

        Raises:
            NotFollowedError: it is not known.
        """
        if self.shape and self.numel != 1:
            raise NotFollowedError(Text("It takes a block for a number."))
        if self.data is None or self.drawn:
            raise NotFollowedError(Text("A loop or a size of it depends on data."))
        return np.asarray(self.data).reshape(-1)[0].item()

    def __index__(self) -> int:
        return int(self.known())

    def __int__(self) -> int:
        return int(self.known())

    def __float__(self) -> float:
        return float(self.known())

    def __bool__(self) -> bool:
        if self.data is None or self.drawn:
            self.tally.assume("branches")
            return True
        return bool(self.known())

    def _with(self, other: Any, name: str, swap: bool = False) -> Block:
        other = self.tally.block(other, self.dtype)
        return binary(name, other, self) if swap else binary(name, self, other)

    def __neg__(self) -> Block:
        return unary(self, operator.neg)

    def __pos__(self) -> Block:
        return self

    def __invert__(self) -> Block:
        return unary(self, np.logical_not if self.dtype.kind == "bool" else operator.invert)


def _infix(name: str, swap: bool) -> Callable[[Block, Any], Block]:
    return lambda self, other: self._with(other, name, swap)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: np.where(b == 0, 0, a // np.where(b == 0, 1, b)),
    "mod": lambda a, b: np.where(b == 0, 0, a % np.where(b == 0, 1, b)),
    "truediv": lambda a, b: np.true_divide(a, np.where(b == 0, 1, b)),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "minimum": np.minimum,
    "maximum": np.maximum,
}
_COMPARES = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})

for _name in _OPERATORS:
    if _name not in ("minimum", "maximum"):
        setattr(Block, f"__{_name}__", _infix(_name, swap=False))
        if _name not in _COMPARES:
            setattr(Block, f"__r{_name}__", _infix(_name, swap=True))


def promoted(a: DType, b: DType) -> DType:
    """The type of a result."""
    if a.kind == "pointer" or b.kind == "pointer":
        return a if a.kind == "pointer" else b
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    rank = ("bool", "int", "float")
    return a if rank.index(a.kind) > rank.index(b.kind) else b


def binary(name: str, a: Block, b: Block) -> Block:
    """One operation on two blocks."""
    tally = a.tally
    tally.step()
    shape = a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)
    if a.dtype.kind == "pointer" or b.dtype.kind == "pointer":
        return _moved(name, a, b, shape)
    dtype = BOOL if name in _COMPARES else promoted(a.dtype, b.dtype)
    if name == "truediv" and dtype.kind != "float":
        dtype = FLOAT32
    unknown = a.data is None or b.data is None
    drawn = a.drawn or b.drawn
    if unknown or drawn or dtype.kind == "float":
        tally.arithmetic("div" if name == "truediv" else name, math.prod(shape))
    if dtype.kind == "bool" and (unknown or drawn):
        return _taken_as_true(name, a, b, shape)
    if unknown or (dtype.kind == "float" and shape):
        return Block(tally, shape, dtype)
    with np.errstate(all="ignore"):
        data = _OPERATORS[name](a.data, b.data)
    return Block(tally, shape, dtype, data, drawn=drawn)


def _taken_as_true(name: str, a: Block, b: Block, shape: tuple[int, ...]) -> Block:
    """A mask of which something is unknown: `and` keeps what is known of it."""
    if name == "and":
        for one in (a, b):
            if one.data is not None and not one.drawn:
                return one.broadcast(shape)
    return Block(a.tally, shape, BOOL)


def _moved(name: str, a: Block, b: Block, shape: tuple[int, ...]) -> Block:
    pointer, offset = (a, b) if a.dtype.kind == "pointer" else (b, a)
    if offset.dtype.kind == "pointer" or name not in ("add", "sub"):
        if name in _COMPARES:
            return Block(a.tally, shape, BOOL)
        raise NotFollowedError(Text("It reckons with addresses."))
    element = pointer.dtype.element_ty
    assert element is not None
    data, drawn = offset.data, pointer.drawn or offset.drawn
    if data is None:
        data, drawn = a.tally.draw(offset.shape), True
    moved = data * max(1, element.bits // 8)
    moved = pointer.data - moved if name == "sub" else pointer.data + moved
    return Block(a.tally, shape, pointer.dtype, moved, pointer.tensor, drawn)


def unary(a: Block, function: Callable[[Any], Any]) -> Block:
    """One operation on one block."""
    a.tally.step()
    if a.data is None or a.drawn or a.dtype.kind == "float":
        a.tally.arithmetic("neg", a.numel)
    if a.data is None:
        return Block(a.tally, a.shape, a.dtype)
    return Block(a.tally, a.shape, a.dtype, function(a.data), drawn=a.drawn)
