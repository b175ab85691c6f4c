"""How PyTorch runs an elementwise operator: which of its three kernels, and how dearly.

ATen's TensorIterator (aten/src/ATen/TensorIterator.cpp, native/cuda/CUDALoops.cuh) chooses

* *vectorized*: all operands dense in the same order, no type conversion: 16-byte accesses;
* *unrolled*: the same but operands of another type than the function's: one element at a time;
* *strided*: anything else (broadcast, transposed, sliced): an offset is computed for each element.

The last two are limited by instructions, not by memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Literal

from gpuscope.cost.bandwidth import SECTOR_BYTES, Launch, kernel, reads, written
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel, Kind
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

Style = Literal["vectorized", "unrolled", "strided"]

THREADS = 128
"""Threads of an elementwise block (num_threads() in ATen/native/cuda/thread_constants.h)."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """The chosen kernel and its shape.

    Attributes:
        style: which kernel.
        dims: dimensions left after merging those that are dense in each other in all operands.
        per_thread: elements a thread works on.
    """

    style: Style
    dims: int
    per_thread: int


def iteration(operands: Sequence[TensorSpec], out: TensorSpec, casting: bool = False) -> Iteration:
    """Choose the kernel of an elementwise call.

    Args:
        operands: device inputs, as they are stored.
        out: the (first) output, whose shape the others broadcast to.
        casting: an operand has another type than the arithmetic.
    """
    dims = 1
    if not _same_dense_order(operands, out):
        dims = merged_dims(operands, out)
        if dims != 1 or any(t.numel != out.numel for t in operands) or _gappy(operands, out):
            return Iteration("strided", dims, 2 if out.itemsize >= 4 else 4)
    if casting:
        return Iteration("unrolled", 1, 4)
    return Iteration("vectorized", 1, 8)


def _same_dense_order(operands: Sequence[TensorSpec], out: TensorSpec) -> bool:
    if out.is_contiguous:
        return all(t.shape == out.shape and t.is_contiguous for t in operands)
    return out.is_dense and all(t.shape == out.shape and t.stride == out.stride for t in operands)


def _gappy(operands: Sequence[TensorSpec], out: TensorSpec) -> bool:
    """Whether the merged dimension is stepped through with a stride in some operand."""
    for spec in (out, *operands):
        steps = [st for s, st in zip(spec.shape, spec.stride, strict=True) if s > 1]
        if steps and min(steps) != 1:
            return True
    return False


def merged_dims(operands: Sequence[TensorSpec], out: TensorSpec) -> int:
    """Dimensions left after TensorIterator sorts them by stride and merges dense neighbours."""
    rank = len(out.shape)
    rows = [_broadcast_strides(spec, rank) for spec in (out, *operands)]
    order = [d for d in range(rank) if out.shape[d] > 1]
    order.sort(key=lambda d: (rows[0][d], *(row[d] for row in rows[1:])))
    if not order:
        return 1
    dims = 1
    for inner, outer in pairwise(order):
        size = out.shape[inner]
        # A merged run goes on only where every operand's outer step is the run it already has.
        if any(row[outer] != row[inner] * size for row in rows):
            dims += 1
    return dims


def _broadcast_strides(spec: TensorSpec, rank: int) -> tuple[int, ...]:
    steps = tuple(
        0 if size == 1 else step for size, step in zip(spec.shape, spec.stride, strict=True)
    )
    return (0,) * (rank - len(steps)) + steps[-rank:] if rank else ()


def issue_cycles(work: Work, chosen: Iteration, operands: int, arithmetic: str) -> float:
    """Clocks that one element keeps a multiprocessor busy.

    Args:
        work: for the constants, "pointwise.<style>.cycles" and the like.
        chosen: the kernel.
        operands: tensors read, plus one written.
        arithmetic: "cheap", "transcendental", "heavy" or "special".
    """
    get = work.constants.value
    extra = get(f"pointwise.arithmetic.{arithmetic}")
    if chosen.style == "vectorized":
        return max(get("pointwise.vectorized.cycles") * operands, extra)
    if chosen.style == "unrolled":
        access = get("pointwise.unrolled.cycles_per_operand")
        return get("pointwise.unrolled.cycles") + access * operands + extra / 2
    access = get("pointwise.strided.cycles_per_operand")
    index = get("pointwise.strided.cycles_per_dim") * (chosen.dims - 1)
    thread = get("pointwise.strided.cycles_per_thread") / chosen.per_thread
    base = get("pointwise.strided.cycles")
    return base + thread + access * operands + index + extra / 2


def arithmetic_s(work: Work, arithmetic: str) -> float:
    """Time of one element's dependent instructions, seconds."""
    return work.constants.value(f"pointwise.latency.{arithmetic}_s")


def offset_s(work: Work, plan: Iteration) -> float:
    """Time until a strided kernel's first offset is known: divisions, dimension by dimension."""
    if plan.style != "strided":
        return 0.0
    return work.constants.value("pointwise.latency.strided_s")


def dependent_loads(work: Work, plan: Iteration) -> float:
    """Loads of a thread that wait for each other.

    All go at once where accesses are vectorized; else the next begins before the last is done.
    """
    if plan.style == "vectorized":
        return 1.0
    return 1.0 + (plan.per_thread - 1) * work.constants.value("pointwise.next_load")


def turning_cycles(work: Work, source: TensorSpec, target: TensorSpec) -> float:
    """Extra clocks an element where two tensors' dense dimensions differ (a transposition).

    Neighbouring threads then read far from each other. What a block's threads do not share of a
    sector comes from the L2 for each of them, asked for line by line; what they share is in the L1,
    whose 32 banks of four bytes each hand out one word a clock: lanes whose words lie a multiple of
    128 bytes apart wait for each other.
    """
    if len(source.shape) != len(target.shape) or source.numel != target.numel:
        return 0.0
    if source.stride == target.stride:
        return 0.0
    if _dense_dim(source) == _dense_dim(target):
        return 0.0
    get = work.constants.value
    lanes = THREADS * (2 if target.itemsize >= 4 else 4)
    dense = lanes * source.itemsize / SECTOR_BYTES
    sectors = lines_of_warp(source, target, lanes, SECTOR_BYTES)
    apart = min(max((sectors - dense) / (lanes - dense), 0.0), 1.0)
    asked = (lines_of_warp(source, target) - 1) / (_WARP - 1)
    waiting = (bank_turns(source, target) - 1) / (_WARP - 1)
    return float(
        get("copy.transposed.cycles") * apart * asked
        + get("copy.transposed.bank_cycles") * (1.0 - apart) * waiting
    )


_WARP = 32
_LINE_BYTES = 128
_BANKS, _BANK_BYTES = 32, 4


@lru_cache(maxsize=4096)
def lines_of_warp(
    source: TensorSpec, target: TensorSpec, lanes: int = _WARP, line_bytes: int = _LINE_BYTES
) -> int:
    """Cache lines of `source` that neighbouring elements of `target` lie on.

    Args:
        source: what is read.
        target: what is written.
        lanes: threads that read at once, an element each.
        line_bytes: of a line, or of its sectors.
    """
    return len({at // line_bytes for at in _read_at(source, target, lanes)})


@lru_cache(maxsize=4096)
def bank_turns(source: TensorSpec, target: TensorSpec) -> int:
    """Turns in which the L1's banks hand out what 32 neighbouring elements of `target` read."""
    words = {at // _BANK_BYTES for at in _read_at(source, target, _WARP)}
    return max(Counter(word % _BANKS for word in words).values(), default=1)


def _read_at(source: TensorSpec, target: TensorSpec, lanes: int) -> list[int]:
    """Bytes from the start of `source` at which neighbouring threads read.

    Those in the middle of `target`, whose elements are taken in order of its strides.
    """
    order = [
        d
        for d in sorted(range(len(target.shape)), key=lambda d: target.stride[d])
        if target.shape[d] > 1
    ]
    first = max(0, min(target.numel // 2, target.numel - lanes))
    found = []
    for place in range(first, min(first + lanes, target.numel)):
        rest, at = place, 0
        for d in order:
            rest, index = divmod(rest, target.shape[d])
            at += index * source.stride[d]
        found.append(int(at * source.itemsize))
    return found


def _dense_dim(spec: TensorSpec) -> int:
    """The dimension of least stride, broadcast ones aside; -1 if none has a length."""
    found = [
        (st, d)
        for d, (s, st) in enumerate(zip(spec.shape, spec.stride, strict=True))
        if s > 1 and st
    ]
    return min(found)[1] if found else -1


def elementwise(
    work: Work,
    *,
    name: str,
    kind: Kind = "pointwise",
    arithmetic: str = "cheap",
    positions: Sequence[int] | None = None,
    casting: bool | None = None,
    family: str = "",
    note: str = "",
) -> tuple[Kernel, ...]:
    """The kernel of an elementwise operator.

    Args:
        work: what to cost.
        name: of the arithmetic, for the kernel's name.
        kind: family, for breakdowns.
        arithmetic: cost class of one element.
        positions: inputs that are read; all by default.
        casting: whether types are converted; judged from the operands by default.
        family: whose scale constant applies; the kind's by default.
        note: for a reader.
    """
    if not work.outputs:
        return ()
    outs = work.outputs
    out = outs[0]
    if out.numel == 0:
        return ()
    inputs = work.op.inputs
    chosen = range(len(inputs)) if positions is None else positions
    operands = [inputs[i] for i in chosen if inputs[i].device == "device"]
    if casting is None:
        casting = converts(operands)
    plan = iteration(operands, out, casting)
    read = reads(work, positions)
    cycles = issue_cycles(work, plan, len(operands) + len(outs), arithmetic)
    cycles += max((turning_cycles(work, t, out) for t in operands), default=0.0)
    least = sum(t.touched_bytes for t in operands) + written(work)
    grid = max(1, ceil(out.numel / (THREADS * plan.per_thread)))
    return (
        kernel(
            work,
            Launch(
                f"elementwise_{plan.style}_{name}",
                kind,
                read.cold,
                read.hot,
                written(work),
                min(least, read.total + written(work)),
                out.numel,
                cycles,
                grid,
                THREADS,
                streaming=True,
                loads=dependent_loads(work, plan),
                chain_s=arithmetic_s(work, arithmetic) + offset_s(work, plan),
                dtype=out.dtype,
                family=family,
                note=note or _note(plan),
            ),
        ),
    )


def converts(operands: Sequence[TensorSpec]) -> bool:
    """Whether floating-point operands of several types meet (a bool is a mask, not a number)."""
    return len({t.dtype for t in operands if t.dtype != "bool"}) > 1


def _note(plan: Iteration) -> str:
    if plan.style == "unrolled":
        return Text("types differ: one element at a time")
    if plan.style == "strided":
        return Text(
            "strided or broadcast over {dims} dimensions: an offset for each element",
            dims=plan.dims,
        )
    return ""
