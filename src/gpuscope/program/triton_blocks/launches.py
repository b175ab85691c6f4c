"""A whole launch from a few of its programs: first, last, and some evenly spread in between."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from gpuscope.document.text import Text
from gpuscope.program.triton_blocks.block_pointers import Descriptor
from gpuscope.program.triton_blocks.interpreter import run
from gpuscope.program.triton_blocks.language import function_named
from gpuscope.program.triton_blocks.tally import SECTOR, Argument, Tally, distinct
from gpuscope.program.triton_blocks.values import Block, NotFollowedError, pointer_to
from gpuscope.program.triton_blocks.work import BlockWork, Traffic

SAMPLES = 12
"""Programs followed of a launch; all of it where it has no more."""

FEW_SAMPLES = 5
"""The same for each of many configurations to choose from."""

NEIGHBOURS = (8, 16, 32, 64, 128, 256)
"""Of so many programs in order it is found what they share."""

_SMALL_BYTES = 4 << 20
"""Tensors that any L2 cache holds: what is read again costs no memory traffic."""


@dataclass(frozen=True)
class TensorArgument:
    """A tensor among the arguments: its number among `Launch.tensors`."""

    number: int


@dataclass(frozen=True)
class DescriptorArgument:
    """A tensor descriptor made by the host: its tensor's number, shape, strides and block."""

    number: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        function: the kernel's Python function.
        arguments: by parameter: numbers, `TensorArgument`, `DescriptorArgument`, constants.
        constants: names of the parameters that are compile-time constants.
        tensors: what the tensor arguments are.
        grid: (x, y, z).
        warps, stages: of the configuration.
        samples: programs to follow.
    """

    function: Any
    arguments: dict[str, Any]
    constants: frozenset[str]
    tensors: tuple[Argument, ...]
    grid: tuple[int, int, int]
    warps: int
    stages: int
    samples: int = SAMPLES


def follow(launch: Launch) -> BlockWork:
    """Count what a launch does.

    Raises:
        NotFollowedError: the kernel does something that is not followed.
    """
    count = math.prod(launch.grid)
    if count < 1:
        raise NotFollowedError(Text("Its grid is empty."))
    chosen = _chosen(launch.grid, launch.samples)
    tallies: list[Tally] = []
    for program, _ in chosen:
        steps = tallies[-1].steps if tallies else 0
        tallies.append(_program(launch, program, steps=steps))
    weights = [weight for _, weight in chosen]
    traffic = _traffic(launch, tallies, weights)
    sizes = [float(sum(t.requested.values()) + sum(t.dots.values())) for t in tallies]
    middle = _mean(sizes, weights)
    dots: dict[str, float] = defaultdict(float)
    for tally, weight in zip(tallies, weights, strict=True):
        for dtype, flops in tally.dots.items():
            dots[dtype] += flops * weight
    dots = {dtype: float(round(flops)) for dtype, flops in dots.items()}
    return BlockWork(
        grid=count,
        warps=launch.warps,
        stages=launch.stages,
        meta=_meta(launch),
        traffic=traffic,
        dots=tuple(sorted(dots.items())),
        flops=_total([t.flops for t in tallies], weights),
        instructions=_total([t.instructions for t in tallies], weights),
        rounds=_mean([float(t.rounds) for t in tallies], weights),
        longest=max(sizes) / middle if middle else 1.0,
        widest=max(t.widest for t in tallies),
        operand_bytes=max(t.operand_bytes for t in tallies),
        assumed=tuple(sorted(set().union(*(t.assumed for t in tallies)))),
        sampled=len(tallies),
    )


def _total(values: list[float], weights: list[float]) -> float:
    """Of the launch, a whole number."""
    return float(round(sum(v * w for v, w in zip(values, weights, strict=True))))


def _mean(values: list[float], weights: list[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _meta(launch: Launch) -> str:
    shown = [f"{n}={launch.arguments[n]}" for n in launch.arguments if n in launch.constants]
    return ", ".join((*shown, f"num_warps={launch.warps}", f"num_stages={launch.stages}"))


def _chosen(grid: tuple[int, int, int], samples: int) -> list[tuple[tuple[int, int, int], float]]:
    """Programs to follow, each with how many it stands for.

    A grid of one dimension: the middles of equal parts, and the last by itself, which is often cut
    short. Of more: a Latin square, so that each dimension is spread evenly.
    """
    count = math.prod(grid)
    if count <= samples:
        return [(_place(n, grid), 1.0) for n in range(count)]
    if count == max(grid):
        parts = samples - 1
        middles = [int((n + 0.5) * (count - 1) / parts) for n in range(parts)]
        each = (count - 1) / parts
        return [*((_place(n, grid), each) for n in middles), (_place(count - 1, grid), 1.0)]
    found = []
    for n in range(samples):
        rows = (n, (n * 5 + 3) % samples, (n * 7 + 1) % samples)
        at = tuple(int((row + 0.5) * size / samples) for row, size in zip(rows, grid, strict=True))
        found.append((cast("tuple[int, int, int]", at), count / samples))
    return found


def _place(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


def _program(
    launch: Launch, program: tuple[int, int, int], *, steps: int = 0, first_only: bool = False
) -> Tally:
    tally = Tally(
        launch.tensors, program, launch.grid, function_named, first_only=first_only, steps=steps
    )
    given = {n: _given(tally, v, n in launch.constants) for n, v in launch.arguments.items()}
    run(launch.function, tally, given)
    return tally


def _given(tally: Tally, value: Any, constant: bool) -> Any:
    if isinstance(value, TensorArgument):
        return _pointer(tally, value.number)
    if isinstance(value, DescriptorArgument):
        shape, strides = value.shape, value.strides
        return Descriptor(_pointer(tally, value.number), shape, strides, value.block_shape)
    if not constant and isinstance(value, (int, float)):
        return tally.block(value)
    if isinstance(value, (tuple, list)):
        return tuple(_given(tally, one, constant) for one in value)
    return value


def _pointer(tally: Tally, number: int) -> Block:
    dtype = pointer_to(tally.arguments[number].dtype)
    return Block(tally, (), dtype, np.int64(0), number)


def _traffic(launch: Launch, tallies: list[Tally], weights: list[float]) -> tuple[Traffic, ...]:
    keys = sorted({key for tally in tallies for key in tally.requested})
    whole = len(tallies) == math.prod(launch.grid)
    found = []
    for kind, number in keys:
        key = (kind, number)
        own = [_union(tally.sectors.get(key, ())) for tally in tallies]
        in_programs = _total([float(len(u)) for u in own], weights) * SECTOR
        gathered = any(key in tally.drawn for tally in tallies)
        size = launch.tensors[number].nbytes
        if whole:
            distinct = float(len(_union(own)) * SECTOR)
        elif gathered:  # so many draws from so many sectors hit each at least once
            distinct = size * -math.expm1(-in_programs / max(size, 1))
        else:
            reach = max(int(u[-1]) + 1 if len(u) else 0 for u in own) * SECTOR
            distinct = min(in_programs, float(max(size, reach)))
        found.append(
            Traffic(
                kind=cast("Any", kind),
                tensor=number,
                requested_bytes=_sum(tallies, weights, "requested", key) * SECTOR,
                program_bytes=in_programs,
                distinct_bytes=distinct,
                elements=_sum(tallies, weights, "elements", key),
                gathered=gathered,
            )
        )
    return _with_shares(launch, found)


def _sum(tallies: list[Tally], weights: list[float], what: str, key: tuple[str, int]) -> float:
    return _total([getattr(t, what).get(key, 0.0) for t in tallies], weights)


def _union(sectors: Any) -> Any:
    parts = [s for s in sectors if len(s)]
    return distinct(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def _with_shares(launch: Launch, traffic: list[Traffic]) -> tuple[Traffic, ...]:
    """What neighbouring programs share, where more is read again than any cache holds."""
    reads = [t for t in traffic if t.kind == "load"]
    large = sum(t.distinct_bytes for t in reads) > _SMALL_BYTES
    again = any(t.program_bytes > 1.25 * t.distinct_bytes and not t.gathered for t in reads)
    if not (large and again):
        return tuple(traffic)
    most = NEIGHBOURS[-1] if launch.samples == SAMPLES else NEIGHBOURS[-3]
    count = min(math.prod(launch.grid), most)
    seen: dict[int, list[Any]] = defaultdict(list)
    for number in range(count):
        tally = _program(launch, _place(number, launch.grid), first_only=True)
        for t in reads:
            seen[t.tensor].append(_union(tally.sectors.get(("load", t.tensor), ())))
    out = []
    for t in traffic:
        shares = []
        if t.kind == "load" and not t.gathered:
            for n in (n for n in NEIGHBOURS if n <= count):
                total = sum(map(len, seen[t.tensor][:n]))
                share = len(_union(seen[t.tensor][:n])) / total if total else 1.0
                shares.append((n, share))
        values = {f: getattr(t, f) for f in Traffic.__dataclass_fields__} | {
            "shared": tuple(shares)
        }
        out.append(Traffic(**values))
    return tuple(out)
