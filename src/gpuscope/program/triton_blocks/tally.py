"""What one program of a Triton launch does: bytes by argument, arithmetic, rounds of its loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.program.triton_blocks.values import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    Block,
    DType,
    NotFollowedError,
    dtype_named,
)

SECTOR = 32
"""Bytes that device memory hands out at least (CUDA programming guide)."""

MOST_STEPS = 400_000
"""Operations on blocks that a launch is followed for: some ten seconds."""

INSTRUCTIONS = {
    **dict.fromkeys(("exp", "exp2", "log", "log2"), 10),
    **dict.fromkeys(("sqrt", "rsqrt", "div", "sqrt_rn", "div_rn", "fdiv"), 9),
    **dict.fromkeys(("sin", "cos"), 24),
    **dict.fromkeys(("erf", "tanh"), 34),
    "sigmoid": 12,
    "pow": 20,
    "random": 44,
    "softmax": 12,
}
"""Instructions an element, 1 where absent: those of `gpuscope.cost.fused`; random numbers by
Philox-4x32-10, ten rounds of two wide products, for four numbers of which one is used."""


@dataclass(frozen=True)
class Argument:
    """A tensor that a kernel is given.

    Attributes:
        dtype: of its elements.
        nbytes: of its memory from the first element on.
        values: its whole numbers, where they are known; flat.
    """

    dtype: DType
    nbytes: int
    values: Any = None


class Tally:
    """Counts of one program.

    Args:
        arguments: the tensors.
        program, grid: its number and how many there are, (x, y, z).
        language: functions of the language by name.
        first_only: go round each loop once.
    """

    def __init__(
        self,
        arguments: tuple[Argument, ...],
        program: tuple[int, int, int],
        grid: tuple[int, int, int],
        language: Callable[[str], Any],
        *,
        first_only: bool = False,
        steps: int = 0,
    ) -> None:
        self.arguments, self.program, self.grid = arguments, program, grid
        self.names, self.first_only, self.steps = language, first_only, steps
        self.sectors: dict[tuple[str, int], list[Any]] = defaultdict(list)
        self.requested: dict[tuple[str, int], float] = defaultdict(float)
        self.elements: dict[tuple[str, int], float] = defaultdict(float)
        self.drawn: set[tuple[str, int]] = set()
        self.dots: dict[str, float] = defaultdict(float)
        self.flops = self.instructions = 0.0
        self.operand_bytes = self.widest = self.rounds = self.accesses = 0
        self.assumed: set[str] = set()
        self._draws = 0

    def language(self, name: str) -> Callable[..., Any]:
        """A function of the language for this program."""
        found = self.names(name)
        return lambda *args, **kwargs: found(self, *args, **kwargs)

    def step(self) -> None:
        """One more operation.

        Raises:
            NotFollowedError: that are too many.
        """
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise NotFollowedError(
                Text("A program of it takes more than {most} operations.", most=MOST_STEPS)
            )

    def assume(self, what: str) -> None:
        """Something was taken for granted: "masks", "branches", "gathers"."""
        self.assumed.add(what)

    # ---- values --------------------------------------------------------------------------

    def as_dtype(self, given: Any) -> DType:
        """A type, however it is given."""
        if isinstance(given, DType):
            return given
        found = dtype_named(str(given).rpartition(".")[2])
        if found is None:
            raise NotFollowedError(Text("Its type {dtype} is not known.", dtype=str(given)))
        return found

    def block(self, value: Any, beside: DType | None = None) -> Block:
        """A number as a scalar block, of the type of what it is used with; a block as it is."""
        if isinstance(value, Block):
            return value
        value = getattr(value, "value", value)
        if isinstance(value, bool):
            return Block(self, (), BOOL, np.bool_(value))
        if isinstance(value, int):
            kept = beside if beside is not None and beside.kind in ("float", "int") else None
            dtype = kept or (INT32 if -(2**31) <= value < 2**31 else INT64)
            data = np.float64(value) if dtype.kind == "float" else np.int64(value)
            return Block(self, (), dtype, data)
        if isinstance(value, float):
            dtype = beside if beside is not None and beside.kind == "float" else FLOAT32
            return Block(self, (), dtype, np.float64(value))
        raise NotFollowedError(
            Text("It uses a value that is not followed: {value}.", value=str(value)[:60])
        )

    def draw(self, shape: tuple[int, ...]) -> Any:
        """Whole numbers that stand for unknown ones, evenly spread and always the same."""
        x, y, z = self.program
        size = int(np.prod(shape)) if shape else 1
        seed = np.uint64((x + self.grid[0] * (y + self.grid[1] * z)) * 1_000_003 + self._draws)
        self._draws += 1
        with np.errstate(over="ignore"):
            mixed = (np.arange(size, dtype=np.uint64) + seed * np.uint64(65_537)) * np.uint64(
                0x9E3779B97F4A7C15
            )
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
        return (mixed >> np.uint64(33)).astype(np.int64).reshape(shape)

    # ---- work ----------------------------------------------------------------------------

    def arithmetic(self, name: str, elements: int) -> None:
        """An operation on each element."""
        if name != "cast":
            self.flops += elements
        self.instructions += elements * INSTRUCTIONS.get(name, 1)
        self.widest = max(self.widest, elements)

    def dot(self, dtype: str, flops: float, operand_bytes: int, result: int) -> None:
        """A product of two blocks."""
        self.dots[dtype] += flops
        self.operand_bytes = max(self.operand_bytes, operand_bytes)
        self.widest = max(self.widest, result)

    def access(self, kind: str, pointers: Block, mask: Block | None) -> None:
        """A load, store or atomic through pointers where the mask is true."""
        if pointers.dtype.kind != "pointer":
            raise NotFollowedError(Text("It uses a number as an address."))
        element = pointers.dtype.element_ty
        assert element is not None
        size, key = max(1, element.bits // 8), (kind, pointers.tensor)
        at = np.asarray(pointers.data)
        if mask is not None and (mask.data is None or mask.drawn):
            self.assume("masks")
        elif mask is not None:
            shape = np.broadcast_shapes(at.shape, mask.shape)
            on = np.broadcast_to(mask.data, shape)
            at = np.broadcast_to(at, shape)
            if not on.all():
                at = at[on]
        if not at.size:
            return
        self.elements[key] += at.size
        self.accesses += 1
        if pointers.drawn:
            self.drawn.add(key)
            self.assume("gathers")
            at = at % max(size, self.arguments[pointers.tensor].nbytes)
        sectors = _sectors(at, size)
        self.requested[key] += len(sectors)
        self.sectors[key].append(sectors)


def _sectors(at: Any, size: int) -> Any:
    """Numbers of the sectors that elements of `size` bytes lie in, each once."""
    if at.ndim == 2 and min(at.shape) > 1 and abs(at[1, 0] - at[0, 0]) < abs(at[0, 1] - at[0, 0]):
        at = at.T
    flat = _changes(at.reshape(-1) // SECTOR)
    return flat if (flat[1:] > flat[:-1]).all() else distinct(flat)


def distinct(numbers: Any) -> Any:
    """Each number once, in order (`np.unique` hashes, which takes longer for these)."""
    return _changes(np.sort(numbers))


def _changes(numbers: Any) -> Any:
    """Without those that equal the one before."""
    new = np.ones(len(numbers), dtype=bool)
    np.not_equal(numbers[1:], numbers[:-1], out=new[1:])
    return numbers[new]
