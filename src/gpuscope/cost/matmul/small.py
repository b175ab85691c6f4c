"""In how many kernels cuBLAS does a float32 product: whole, in slices of K, or by an old kernel.

Without tensor cores its heuristics cut K also where the matrix alone would fill the device, or
where there is next to nothing to cut, so a model of time does not foresee it. Where they do was
read off recordings of an H200: a grid of 256 products and 30 random ones (micro/small.jsonl.gz,
micro/wide.jsonl.gz), and those that 78 programs launched (corpus.jsonl.gz). Sizes are counted in
tiles of 32 x 32 of the output, the smallest that the library has.

A product of a linear layer with a bias ("NT") has ways of its own: cuBLASLt has no plain kernel
that both cuts K and adds a row. Few tiles take `sgemm_largek`, which adds its slices up in place: a
memset, the output cleared before ("scal"), the product, the bias after it ("epilogue"). The time of
any other way is that of the planned product; only how many kernels share it is decided here.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Literal

from gpuscope.cost.matmul.gemm import Machine, Problem, reduction_s
from gpuscope.cost.reduction.model import memset_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text

Way = Literal["whole", "slices", "old"]

TILE, OLD_SLICES = 32, 4
FEW_ROWS, FEWEST_ROWS = 16, 8
"""Up to so many rows of input, with a bias and without, kernels of their own stream the weight."""
OLD = ((63, 5, 64), (16, 5, 96), (8, 5, 256))
"""With a bias: up to so many tiles and K within these, by the old kernel."""


def way(problem: Problem, machine: Machine) -> Way | None:
    """How the library does it, None where that is the planner's to say."""
    if not machine.vector or problem.dtype != "float32" or problem.batch > 1:
        return None
    if min(problem.m, problem.n) == 1 or machine.by_one or machine.scratchpad:
        return None
    tiles = ceil(problem.m / TILE) * ceil(problem.n / TILE)
    if problem.biased:
        return _biased(problem, machine, tiles) if problem.layout == "NT" else None
    cut = _of_weights(tiles, problem.k) if problem.layout == "TN" else _of_rows(problem, tiles)
    return None if cut is None else "slices" if cut else "whole"


def _biased(problem: Problem, machine: Machine, tiles: int) -> Way | None:
    k = problem.k
    if problem.m <= FEW_ROWS or k < 5:
        return "whole"
    if any(tiles <= most and low <= k <= high for most, low, high in OLD):
        return "old"
    if k >= 1024 and 32 < tiles <= machine.units:
        return "old"
    if k >= 512 and 64 <= tiles <= 80:
        return "old"
    if tiles <= 32 and 256 <= k <= 2048:
        return "slices"
    return "whole" if tiles <= 32 and k > 2048 else None


def _of_weights(tiles: int, k: int) -> bool | None:
    """Gradients of weights: rows are summed over."""
    if k >= 1024 and tiles < 1536:
        return True
    if tiles < 8:
        return False if k < 512 else None
    return True if k >= 256 and tiles <= 64 else None


def _of_rows(problem: Problem, tiles: int) -> bool | None:
    """Outputs, and gradients of inputs."""
    k, forward = problem.k, problem.layout == "NT"
    if forward and problem.m <= FEWEST_ROWS:
        return False if k < 1024 and tiles > 4 else None
    if k >= 256:
        return True if tiles <= 96 or (k >= 512 and tiles <= 640) else None
    shallow = k <= 96 and tiles <= (32 if forward else 63)
    return True if k > 1 and (tiles <= 8 or shallow) else None


def in_kernels(
    work: Work, problem: Problem, machine: Machine, planned: tuple[Kernel, ...]
) -> tuple[Kernel, ...]:
    """The kernels of a planned product (its last one the sum over slices, if any) as the library
    launches them."""
    found = way(problem, machine)
    if found == "old":
        return _old(work, problem, planned[0])
    if found == "whole" and len(planned) == 2:
        return (planned[0].lasting(sum(kernel.duration_s for kernel in planned)),)
    if found == "slices" and len(planned) == 1:
        (main,) = planned
        part = min(reduction_s(problem, machine, 2), main.duration_s / 2)
        summed = _beside(main).lasting(part, name="split_k_reduce")
        return main.lasting(main.duration_s - part), summed
    return planned


def _old(work: Work, problem: Problem, main: Kernel) -> tuple[Kernel, ...]:
    """The old kernel and those around it; `main` is the product as another would do it."""
    value = work.constants.value
    tiles = ceil(problem.m / TILE) * ceil(problem.n / TILE)
    seconds = value("matmul.largek_s") + value("matmul.largek_s_per_k") * problem.k
    note = Text("an old kernel: slices of K are added up in place")
    around = _beside(main)
    return (
        memset_kernel(work),
        around.lasting(value("matmul.scal_s"), name="scal", grid=tiles),
        main.lasting(
            seconds, name="sgemm_largek", tile=(TILE, TILE, 4), grid=OLD_SLICES * tiles, note=note
        ),
        around.lasting(value("matmul.epilogue_s"), name="epilogue_bias", grid=tiles),
    )


def _beside(main: Kernel) -> Kernel:
    """A kernel that passes over the output of the product, and multiplies nothing."""
    return replace(main, flops=0.0, read_bytes=0.0, least_bytes=0.0, tile=(), waves=0.0, note="")
