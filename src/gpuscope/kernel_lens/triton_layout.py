"""How Triton's compiler deals a block of elements to registers, lanes and warps.

The rules are those of its coalescing pass and blocked layout (triton-lang/triton,
lib/Dialect/TritonGPU/Transforms/CoalesceUtils.cpp and TritonGPUAttrDefs.td): neighbouring lanes lie
along the dimension whose addresses are contiguous, and each lane takes up to 16 contiguous bytes.
The compiler proves contiguity and alignment from the source; here they are read off the addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpuscope.kernel_lens.requests import Active, Addresses

VECTOR_BYTES = 16
"""Widest access of one lane."""

PROVABLE = 16
"""Triton tells its compiler of an integer argument only whether 16 divides it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of one access's addresses, over all programs.

    Attributes:
        order: dimensions, the most contiguous first.
        elements: contiguous and aligned elements along the first of them that one lane may take.
        mask_elements: neighbours along it that always share their mask.
    """

    order: tuple[int, ...]
    elements: int
    mask_elements: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Which element each lane holds.

    Attributes:
        elements: flat numbers of elements [repetitions, elements of a lane, warps, lanes].
        first: whether an entry is the first that holds its element; others are copies.
    """

    elements: NDArray[np.int64]
    first: Active


def reach_of(
    addresses: Sequence[Addresses], masks: Sequence[Active], element_bytes: int, exact: bool
) -> Reach:
    """Read contiguity, alignment and constancy of masks off the addresses of all programs.

    Args:
        addresses: of each program, all of one shape, counted from where arrays begin aligned.
        masks: of each program, the same shape.
        element_bytes: size of an element.
        exact: whether the compiler knows all integers; False where an argument is not divisible by
            16, which leaves any smaller alignment unproven.
    """
    shape = addresses[0].shape
    runs = [
        min(_run(one, dimension, element_bytes) for one in addresses)
        for dimension in range(len(shape))
    ]
    order = tuple(sorted(range(len(shape)), key=lambda d: (-runs[d], -d)))
    inner, extent = order[0], shape[order[0]]
    aligned = min(_alignment(one, inner, runs[inner], element_bytes) for one in addresses)
    shared = min(_constancy(mask, inner) for mask in masks)
    provable = min(PROVABLE, extent)
    if not exact:
        aligned = aligned if aligned >= provable else 1
        shared = shared if shared >= provable else 1
    most = max(1, VECTOR_BYTES // element_bytes)
    return Reach(order, min(runs[inner], aligned, most), shared)


def _run(addresses: Addresses, dimension: int, element_bytes: int) -> int:
    """Largest power of two of neighbours along a dimension that are contiguous in memory."""
    extent, run = addresses.shape[dimension], 1
    moved = np.moveaxis(addresses, dimension, -1)
    steps = np.diff(moved, axis=-1) == element_bytes
    while run * 2 <= extent and extent % (run * 2) == 0:
        inside = (np.arange(extent - 1) + 1) % (run * 2) != 0
        if not steps[..., inside].all():
            break
        run *= 2
    return run


def _alignment(addresses: Addresses, dimension: int, run: int, element_bytes: int) -> int:
    """Largest power of two, in elements, that divides where all runs begin."""
    starts = np.moveaxis(addresses, dimension, -1)[..., ::run]
    merged = int(np.bitwise_or.reduce(starts, axis=None))
    if merged == 0:
        return VECTOR_BYTES
    return max(1, (merged & -merged) // element_bytes)


def _constancy(mask: Active, dimension: int) -> int:
    """Largest power of two of neighbours along a dimension that always share their mask."""
    extent, run = mask.shape[dimension], 1
    moved = np.moveaxis(mask, dimension, -1)
    same = moved[..., 1:] == moved[..., :-1]
    while run * 2 <= extent and extent % (run * 2) == 0:
        inside = (np.arange(extent - 1) + 1) % (run * 2) != 0
        if not same[..., inside].all():
            break
        run *= 2
    return run


def per_lane(own: int, together: Sequence[int], size: int, threads: int, is_load: bool) -> int:
    """Elements of one lane.

    Args:
        own: contiguous elements that this access allows (`Reach.elements`).
        together: the same of the accesses that share its layout.
        size: elements of the block.
        threads: of the program.
        is_load: a load takes the widest of its group; a store or atomic no more than its own.
    """
    most = min(max(own, *together) if together else own, max(1, size // threads))
    return most if is_load else min(most, own)


def blocked(
    shape: tuple[int, ...], order: tuple[int, ...], elements: int, warps: int, lanes: int
) -> Layout:
    """Deal a block of elements out.

    Args:
        shape: of the block; every extent a power of two.
        order: dimensions, the fastest first.
        elements: of one lane along the fastest dimension.
        warps, lanes: of the program.
    """
    rank = len(shape)
    lane_grid, warp_grid = _threads(shape, order, elements, warps, lanes)
    width = [elements if d == order[0] else 1 for d in range(rank)]
    tile = [width[d] * lane_grid[d] * warp_grid[d] for d in range(rank)]
    repeat = [max(1, shape[d] // tile[d]) for d in range(rank)]
    repetition = _digits(int(np.prod(repeat)), repeat, order)
    warp = _digits(warps, warp_grid, order)
    lane = _digits(lanes, lane_grid, order)
    flat = np.zeros((len(repetition), elements, warps, lanes), dtype=np.int64)
    for d in range(rank):
        place = (
            ((repetition[:, d, None, None, None] * warp_grid[d]) + warp[None, None, :, d, None])
            * lane_grid[d]
            + lane[None, None, None, :, d]
        ) * width[d]
        if d == order[0]:
            place = place + np.arange(elements)[None, :, None, None]
        flat = flat * shape[d] + place % shape[d]
    first = np.zeros(flat.size, dtype=bool)
    first[np.unique(flat.reshape(-1), return_index=True)[1]] = True
    return Layout(flat, first.reshape(flat.shape))


def _threads(
    shape: tuple[int, ...], order: tuple[int, ...], elements: int, warps: int, lanes: int
) -> tuple[list[int], list[int]]:
    """Lanes and warps along each dimension."""
    lane_grid, warp_grid = [1] * len(shape), [1] * len(shape)
    left_lanes, left_warps = lanes, warps
    for d in order[:-1]:
        width = elements if d == order[0] else 1
        threads = max(1, min(left_lanes * left_warps, shape[d] // width))
        lane_grid[d] = max(1, min(threads, left_lanes))
        warp_grid[d] = max(1, min(threads // lane_grid[d], left_warps))
        left_lanes //= lane_grid[d]
        left_warps //= warp_grid[d]
    lane_grid[order[-1]], warp_grid[order[-1]] = left_lanes, left_warps
    return lane_grid, warp_grid


def _digits(count: int, grid: Sequence[int], order: tuple[int, ...]) -> NDArray[np.int64]:
    """Coordinates [count, dimension] of numbers laid out with the fastest dimension first."""
    left = np.arange(count, dtype=np.int64)
    found = np.zeros((count, len(grid)), dtype=np.int64)
    for d in order:
        found[:, d] = left % grid[d]
        left = left // grid[d]
    return found
