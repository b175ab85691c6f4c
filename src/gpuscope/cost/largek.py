"""`sgemm_largek`: what cuBLASLt takes for a few tiles of float32 with a row added to them.

It has no plain kernel that both splits K and adds a bias. For few tiles an old kernel adds its
slices up in place: a memset of its counters, the output set to zero before ("scal"), the product,
and the bias after it ("epilogue"), 3 kernels where a larger product is one.
Where it is taken was read off 78 recorded products with a bias (micro/small.jsonl.gz,
micro/wide.jsonl.gz), and off two models of 80 tiles with K of 512 and 2,048, whose launches and
memsets only fit so (validation/recordings/h200/coverage.jsonl: vit, deit).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.gemm import Machine, Problem
from gpuscope.cost.reduction import memset_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text

TILE, SLICES = 32, 4
FEW_ROWS = 16
"""Up to so many rows, kernels of their own stream the weight."""
SHALLOW = ((4, 256), (16, 64))
"""Up to so many tiles, with K up to so much."""
DEEP_TILES, DEEP = 16, 512
"""More tiles than these, and K of at least so much, as long as every tile has a multiprocessor."""


def is_largek(problem: Problem, machine: Machine) -> bool:
    """Whether the library takes it."""
    if not (problem.biased and machine.vector and problem.layout == "NT" and problem.batch == 1):
        return False
    if problem.m <= FEW_ROWS or problem.dtype != "float32":
        return False
    tiles = ceil(problem.m / TILE) * ceil(problem.n / TILE)
    if DEEP_TILES < tiles <= machine.units and problem.k >= DEEP:
        return True
    return any(tiles <= most and problem.k <= depth for most, depth in SHALLOW)


def largek(work: Work, problem: Problem, main: Kernel) -> tuple[Kernel, ...]:
    """Its kernels; `main` is the product as another kernel would do it."""
    value = work.constants.value
    tiles = ceil(problem.m / TILE) * ceil(problem.n / TILE)
    old = replace(
        _lasting(main, value("matmul.largek_s") + value("matmul.largek_s_per_k") * problem.k),
        name="sgemm_largek",
        tile=(TILE, TILE, main.tile[2]),
        grid=SLICES * tiles,
        note=Text("an old kernel: slices of K are added up in place"),
    )
    around = replace(old, flops=0.0, read_bytes=0.0, least_bytes=0.0, grid=tiles, tile=(), note="")
    return (
        memset_kernel(work),
        replace(_lasting(around, value("matmul.scal_s")), name="scal"),
        old,
        replace(_lasting(around, value("matmul.epilogue_s")), name="epilogue_bias"),
    )


def _lasting(kernel: Kernel, seconds: float) -> Kernel:
    """The same for so long, as sure of it."""
    share = seconds / kernel.duration_s
    low, high = kernel.low_s * share, kernel.high_s * share
    return replace(kernel, duration_s=seconds, low_s=low, high_s=high)
