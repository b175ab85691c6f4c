"""Products of 2 to 16 rows by a kernel of their own (cuBLAS' "gemmSN"): threads walk K.

Two forms, for a weight as layers keep it (`NT`: 16 threads share a column, 8 columns a block) and
for one whose rows lie dense (`NN`: a block of 256 threads walks K for 64 columns). A block handles
up to 10 rows of the one form, up to 4 of the other; more make more blocks. The time is the walk
along K, which one block of a multiprocessor does not hide, or what the busiest multiprocessor's
blocks load, or device memory. Of 61 and 38 recorded on an H200 the mean error is 11 % and 7 %.

float32 takes it wherever it is quickest; half precision whose rows begin anywhere takes the second
form alone, TF32 the first, from two blocks a multiprocessor on. Batches do without.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.matmul.machine import Machine
from gpuscope.cost.matmul.tiles import Tile
from gpuscope.cost.matmul.types import Plan, Problem
from gpuscope.cost.types import Limiter

MOST_ROWS = 16
COLUMNS = {"NT": 8, "NN": 64}
"""Columns of a block: recorded grids are N / 8 and N / 64 wide."""


def few_rows(problem: Problem, machine: Machine) -> Plan | None:
    """The kernel for few rows, where the library has one for the product."""
    walk = machine.walks.get(problem.layout)
    if walk is None or problem.whole or problem.k == 1 or not 1 < problem.m <= MOST_ROWS:
        return None
    rows, times = _cut(problem.m, problem.layout)
    columns = COLUMNS[problem.layout]
    blocks = ceil(problem.n / columns) * times * problem.batch
    if blocks < walk.fewest_blocks:
        return None
    hot = problem.hot_a and problem.hot_b
    walk_s = problem.k * walk.k_s * (1.0 if hot else walk.cold_walk)
    # Rows of the input are loaded for each column anew; the other form keeps them.
    loaded = columns * problem.item_bytes * problem.k * (1 + rows if problem.layout == "NT" else 1)
    rounds = ceil(blocks / machine.units)
    load_s = rounds * loaded / walk.bytes_per_s
    memory_s = (0.0 if hot else problem.least_bytes) / walk.memory_bytes_per_s
    compute_s = (walk_s**3 + load_s**3) ** (1 / 3)
    limiter: Limiter = "memory" if memory_s > compute_s else "latency"
    return Plan(
        walk.floor_s + (0.0 if hot else walk.cold_s) + (compute_s**3 + memory_s**3) ** (1 / 3),
        Tile(rows, columns, 1, 128 if problem.layout == "NT" else 256),
        1,
        blocks,
        blocks / machine.units,
        compute_s,
        memory_s,
        0.0 if hot else problem.least_bytes - problem.c_bytes,
        problem.c_bytes,
        limiter,
        rounds,
        True,
    )


def _cut(rows: int, layout: str) -> tuple[int, int]:
    """Rows of a block, and blocks for all rows: as recorded for 2 to 16."""
    if layout == "NN":
        times = ceil(rows / 4) if rows < 9 or rows > 13 else 2
        return ceil(rows / times), times
    times = 1 if rows <= 10 or rows in (13, 14) else 2
    return ceil(rows / times), times
