"""Bytes that a kernel draws from the L2 cache, as far as its launch tells.

A matrix product computes its result tile by tile. A tile of m x n draws m rows of one operand and
n columns of the other, (m + n) x K elements, and does 2 m n K operations; so over all tiles

    bytes from L2 = FLOPs x (m + n) / (2 m n) x bytes of an element

whatever the problem's own sizes and however K is split (the usual blocking argument, e.g. in
NVIDIA's CUTLASS documentation, "Efficient GEMM in CUDA"). Blocks of one cluster share the load of
one operand by multicast (Hopper and later; `gpuscope.cost.matmul.tiles` names the tiles that do).
Other kernels draw at least what crosses device memory, and what their operands take that they find
in the cache.
"""

from __future__ import annotations

from gpuscope.cost.matmul.tiles import tiles_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Device

_ITEM_BYTES = {
    "float64": 8.0,
    "float32": 4.0,
    "tf32": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "float8_e4m3fn": 1.0,
    "float8_e5m2": 1.0,
    "int8": 1.0,
}

_TILED = frozenset({"matmul", "convolution"})


def l2_bytes(kernel: Kernel, device: Device | None = None) -> float | None:
    """Return the bytes that a kernel's blocks draw from (and write to) L2.

    Args:
        kernel: with FLOPs, tile and bytes as its model has them.
        device: whose library the tiles are of; without it no load is taken to be shared.

    None for copies over a link, for collectives, and where nothing is known of its traffic.
    """
    if kernel.kind in ("transfer", "collective"):
        return None
    moved = kernel.read_bytes + kernel.written_bytes
    least = max(moved, kernel.least_bytes)
    if is_tiled(kernel):
        rows, columns = kernel.tile[:2]
        item = _ITEM_BYTES[kernel.dtype]
        sides = rows + columns - _shared(kernel, device) * max(rows, columns)
        drawn = kernel.flops * sides / (2.0 * rows * columns) * item
        return max(drawn + kernel.written_bytes, least)
    return least if least > 0 else None


def is_tiled(kernel: Kernel) -> bool:
    """Whether the traffic follows from the tile; else `l2_bytes` is what it is at least."""
    return (
        kernel.kind in _TILED
        and kernel.flops > 0
        and len(kernel.tile) >= 2
        and min(kernel.tile[:2]) > 1
        and kernel.dtype in _ITEM_BYTES
    )


def _shared(kernel: Kernel, device: Device | None) -> float:
    """Share of the longer operand that a multicast from the cluster's neighbours saves."""
    if device is None or device.vendor != "NVIDIA":
        return 0.0
    for tile in tiles_for(device, "matrix"):
        if (tile.m, tile.n, tile.k) == tuple(kernel.tile[:3]):
            return 1.0 - 1.0 / tile.cluster
    return 0.0
