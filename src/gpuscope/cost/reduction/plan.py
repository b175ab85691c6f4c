"""How ATen cuts a reduction into blocks and threads.

`setReduceConfig` (aten/src/ATen/native/cuda/Reduce.cuh) chooses how many threads share one output
and how many blocks; its choice is repeated here. It looks at the dimensions as TensorIterator
leaves them (`reorder_dimensions`, `coalesce_dimensions` in ATen/TensorIterator.cpp): reduced ones
first, those in the order of the input's strides; then kept ones in the order of the output, which
is row-major; neighbours that lie one in the other are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from gpuscope.program.types import TensorSpec

_MOST_THREADS = 512
"""MAX_NUM_THREADS in Reduce.cuh."""

_WARP = 32
_VECTORED = 128
"""Values from which on a thread loads several at once along a dense run."""

_ADDING = frozenset({"sum", "mean"})


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """How a reduction is cut.

    Attributes:
        threads: threads of a block.
        grid: blocks, those that share an output included.
        per_thread: values that one thread adds up.
        shared_by: blocks that share one output.
        vector: values a thread loads or stores at once.
        down: threads of a block that a column's values are dealt out to, before they add them up.
        across: threads of a block that share a row, or neighbouring outputs.
        loaded: values of a row that a thread loads at once.
    """

    threads: int
    grid: int
    per_thread: int
    shared_by: int
    vector: int
    down: int = 1
    across: int = 1
    loaded: int = 1


def reduce_plan(
    outputs: int,
    length: int,
    innermost: bool,
    units: int,
    threads_per_unit: int,
    itemsize: float = 4.0,
) -> ReducePlan:
    """Repeat ATen's choice for `outputs` results of `length` values each, of a dense matrix.

    Args:
        outputs: number of results.
        length: values that go into one.
        innermost: the reduced dimension is the dense one.
        units: multiprocessors.
        threads_per_unit: most resident threads of one.
        itemsize: bytes of one value.
    """
    vector = 1 if innermost else _dividing((outputs,))
    loaded = loaded_at_once("sum", itemsize) if innermost and length >= _VECTORED else 1
    return _cut(outputs, length, innermost, (vector, loaded), units, threads_per_unit)


def plan_of(
    spec: TensorSpec, dims: Sequence[int], name: str, units: int, threads_per_unit: int
) -> tuple[ReducePlan, bool]:
    """How dimensions `dims` of a tensor with elements are reduced, and whether along dense runs.

    Args:
        spec: the tensor.
        dims: reduced dimensions, not negative.
        name: of the operator, without its namespace.
        units: multiprocessors.
        threads_per_unit: most resident threads of one; 0 where it is not known.
    """
    length = prod(spec.shape[d] for d in dims)
    outputs = spec.numel // length
    reduced, kept = iterated(spec, dims)
    innermost = not kept or (bool(reduced) and reduced[0][1] < kept[0][1])
    vector = many = 1
    if innermost and length >= _VECTORED and len(reduced) == 1 and reduced[0][1] == 1:
        many = loaded_at_once(name, spec.itemsize)
    elif not innermost and kept[0][1] == 1:
        steps = [step for _, step in (*reduced, *kept[1:])]
        vector = _dividing((kept[0][0], *steps))
    threads = threads_per_unit or 2048
    return _cut(outputs, length, innermost, (vector, many), units, threads), innermost


def loaded_at_once(name: str, itemsize: float) -> int:
    """Values that a thread loads at once along a dense run (`input_vec_size`).

    Four, but eight where 16-bit ones are added (the last numbers of the recorded symbols).
    """
    return 8 if itemsize == 2 and name in _ADDING else 4


Runs = tuple[tuple[int, int], ...]
"""(Size, stride of the input) of dimensions, innermost first."""


def iterated(spec: TensorSpec, dims: Sequence[int]) -> tuple[Runs, Runs]:
    """Reduced and kept dimensions as TensorIterator orders and merges them."""
    sizes = list(zip(spec.shape, spec.stride, strict=True))
    reduced = sorted((sizes[d] for d in dims if sizes[d][0] > 1), key=lambda run: run[1])
    kept = [sizes[d] for d in reversed(range(len(sizes))) if d not in dims and sizes[d][0] > 1]
    return _merged(reduced), _merged(kept)


def _merged(runs: Sequence[tuple[int, int]]) -> Runs:
    found: list[tuple[int, int]] = []
    for size, step in runs:
        if found and found[-1][0] * found[-1][1] == step:
            found[-1] = found[-1][0] * size, found[-1][1]
        else:
            found.append((size, step))
    return tuple(found)


def _cut(
    outputs: int,
    length: int,
    innermost: bool,
    vectors: tuple[int, int],
    units: int,
    threads_per_unit: int,
) -> ReducePlan:
    """`vectors`: outputs and values of a row that a thread takes at once."""
    vector, loaded = vectors
    dim0, dim1 = (length // loaded, outputs) if innermost else (outputs // vector, length)
    most = _MOST_THREADS // vector
    width0, width1 = _power_of_two(dim0, most), _power_of_two(dim1, most)
    width = min(width0, _WARP)
    height = min(width1, most // width)
    width = min(width0, most // height)
    per_thread, blocks = (
        (ceil(length / width), outputs) if innermost else (length, ceil(dim0 / width))
    )
    down = 1
    if per_thread >= height * 16 or per_thread >= 256:
        per_thread, down = ceil(per_thread / height), height
    else:
        blocks = ceil(blocks / height)
    threads = width * height
    target = units * max(threads_per_unit // threads, 1)
    shared = 1
    if per_thread >= 256 and blocks <= target:
        shared = max(min(ceil(target / blocks), ceil(per_thread / 16)), ceil(per_thread / 256))
        per_thread = ceil(per_thread / shared)
    return ReducePlan(threads, blocks * shared, per_thread, shared, vector, down, width, loaded)


def _dividing(numbers: Sequence[int]) -> int:
    """Most of 4, 2 and 1 that divides all (`get_output_vec_size`)."""
    return next(v for v in (4, 2, 1) if all(n % v == 0 for n in numbers))


def _power_of_two(value: int, most: int) -> int:
    """Largest power of two up to `value`, at most `most`."""
    return most if value >= most else 1 << max(value, 1).bit_length() - 1
