"""Pieces of work that a kernel's blocks work off: one each, or many where blocks stay resident."""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op


def pieces(kernel: Kernel, op: Op | None) -> int:
    """Return how many pieces (tiles, or blocks) a kernel works off; its grid where nothing tells.

    A persistent kernel launches no more blocks than fit at once, and each takes tile after tile.
    Its tiles follow from what it multiplies and from the tile's sides; where a tile lying along
    either side of the result gives two counts, nothing is sure.
    """
    found = _tiles(kernel, op) if kernel.waves <= 1.0 + 1e-9 else None
    return found if found is not None and found > kernel.grid else kernel.grid


def waves(kernel: Kernel, op: Op | None) -> float:
    """Return the waves that a kernel's pieces make; 0 where they are not known."""
    count = pieces(kernel, op)
    return kernel.waves if count <= kernel.grid else kernel.waves * count / kernel.grid


def _tiles(kernel: Kernel, op: Op | None) -> int | None:
    factors = [spec.shape for spec in op.inputs if len(spec.shape) >= 2] if op is not None else []
    if kernel.kind != "matmul" or len(kernel.tile) < 2 or len(factors) < 2 or not kernel.flops:
        return None
    rows, columns = kernel.tile[:2]
    *sides, k = factors[-2]
    m = prod(sides)
    n = kernel.flops / (2.0 * m * k) if m and k else 0.0
    if not n or n != int(n) or min(rows, columns) < 1:
        return None
    counts = {ceil(m / high) * ceil(n / wide) for high, wide in ((rows, columns), (columns, rows))}
    return counts.pop() if len(counts) == 1 else None
