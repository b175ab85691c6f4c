"""Time of one matrix product on one device: the best tile under a small physical model.

For each tile that the library has, and a few ways to split K, the time is

    floor + prologue + rounds x max(multiply, load) + epilogue   against   memory traffic

where a round is one tile per multiprocessor, *multiply* runs at the matrix unit's rate, *load* is
the bytes of the tile's operands at what one multiprocessor can draw from L2, and the memory
traffic counts re-reading of operands that outgrow the L2 cache. Both sides overlap, imperfectly
(a p-norm). The library is taken to choose the fastest, as its heuristics nearly do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuscope.cost.matmul.few_rows import few_rows
from gpuscope.cost.matmul.machine import Machine, Numbers, machine_for, rate_and_unit
from gpuscope.cost.matmul.tiles import Tile
from gpuscope.cost.matmul.types import Plan, Problem
from gpuscope.cost.types import Limiter

__all__ = [
    "Machine",
    "Plan",
    "Problem",
    "TileTimes",
    "candidates",
    "is_matrix_vector",
    "loaded_sides",
    "machine_for",
    "main_loop_s",
    "plan",
    "rate_and_unit",
    "reduction_s",
    "tile_times",
    "traffic_bytes",
]

_WIDE = 128 * 128
"""Rows times columns of a tile above which single elements along K are loaded more slowly."""

_MOST_SLICES = 64.0
"""Most slices of K."""


def plan(problem: Problem, machine: Machine) -> Plan:
    """The fastest kernel for a product, and its time."""
    if machine.gemv_s is not None and is_matrix_vector(problem, machine):
        return _matrix_vector(problem, machine, machine.gemv_s)
    both = (_quickest(problem, one) for one in _generations(problem, machine))
    found, whole_s = min(both, key=lambda planned: planned[1])
    small = few_rows(problem, machine)
    if small is None:
        return found
    # float32 has no quicker kernel that adds a row in its epilogue: it is taken whatever it costs.
    always = machine.vector and problem.biased and problem.layout == "NT"
    return small if always or small.duration_s < whole_s else found


_INT8_COLUMNS = 16
"""int8 products of so many columns, or a multiple, run on kernels of compute capability 8.0 on
Hopper, all others on its own, which has one tile: 17 and 25 of 42 recorded ones whose K is such a
multiple, too."""


def _generations(problem: Problem, machine: Machine) -> tuple[Machine, ...]:
    """The kernels that the library chooses from."""
    other = machine.beside
    if other is None or not other.takes(problem.batch):
        return (machine,)
    if problem.dtype == "int8":
        return (machine,) if problem.n % _INT8_COLUMNS else (other,)
    return machine, other


def _quickest(problem: Problem, machine: Machine) -> tuple[Plan, float]:
    """The best of one generation's kernels, and its time with the sum over slices of K."""
    timed = _timed(problem, machine, not problem.whole)
    best = int(_preference(problem, machine, timed).argmin())
    found = _at(problem, machine, timed, best)
    return found, found.duration_s + float(timed.whole.flat[best] - timed.total.flat[best])


def candidates(
    problem: Problem, machine: Machine, most: int, split: bool = True
) -> tuple[Plan, ...]:
    """The fastest kernels of the library for a product, best first: the first is `plan`'s.

    One for each tile, with the best way to split K for it; tiles larger than the product needs
    (a smaller one holds it just as well) come as late as their time says. A matrix-vector product
    has one kernel. With `split` off, K is left whole.
    """
    if machine.gemv_s is not None and is_matrix_vector(problem, machine):
        return (_matrix_vector(problem, machine, machine.gemv_s),)
    found = [
        each
        for one in _generations(problem, machine)
        for each in _by_tile(problem, one, most, split)
    ]
    found.sort(key=lambda timed: timed[0])
    return tuple(plan for _, plan in found[:most])


def _by_tile(
    problem: Problem, machine: Machine, most: int, split: bool
) -> list[tuple[float, Plan]]:
    """The best way to split K for each of the best tiles, and how long the library expects it."""
    timed = _timed(problem, machine, split and not problem.whole)
    preference = _preference(problem, machine, timed)
    rows, best = preference.argmin(axis=0), preference.min(axis=0)
    start_s = machine.floor_s + (0.0 if problem.hot_a and problem.hot_b else machine.cold_s)
    tiles = len(machine.tiles)
    return [
        (start_s + float(best[tile]), _at(problem, machine, timed, int(rows[tile]) * tiles + tile))
        for tile in map(int, np.argsort(best, kind="stable")[:most])
    ]


def _preference(problem: Problem, machine: Machine, timed: _Timed) -> Numbers:
    """What the library takes the least of: a kernel's time, or that for one product of a batch."""
    if not machine.by_one or problem.batch == 1:
        return timed.whole
    each = 1.0 / problem.batch
    one = replace(
        problem,
        batch=1,
        a_bytes=problem.a_bytes * each,
        b_bytes=problem.b_bytes * each,
        c_bytes=problem.c_bytes * each,
        extra_read_bytes=problem.extra_read_bytes * each,
    )
    return _timed(one, machine, split_k=False).whole.repeat(len(timed.slices), axis=0)


def is_matrix_vector(problem: Problem, machine: Machine) -> bool:
    """Whether the product runs as a matrix-vector kernel, without tiles."""
    return machine.gemv_s is not None and min(problem.m, problem.n) == 1 and problem.k > 1


class _Timed(NamedTuple):
    """Every choice of the library with its times, one row a way to split K, one column a tile.

    `whole` has the sum over the slices of K, too, which is a kernel of its own. In the rows from
    `turns` on they are added up in place instead (`machine.Turns`).
    """

    turns: int
    slices: Numbers
    blocks: Numbers
    compute: Numbers
    memory: Numbers
    total: Numbers
    whole: Numbers


def _timed(problem: Problem, machine: Machine, split_k: bool = True) -> _Timed:
    rows, columns = np.ceil(problem.m / machine.tile_m), np.ceil(problem.n / machine.tile_n)
    blocks = rows * columns * problem.batch
    loaded = loaded_sides(machine, rows, columns)
    slices = _slices(problem, machine, blocks) if split_k else np.ones((1, len(blocks)))
    apart = len(slices)
    by_turns = machine.turns if problem.biased and apart > 1 else None
    if by_turns is not None:
        slices = np.concatenate((slices, slices[1:]))
    sliced = blocks * slices
    compute = _arithmetic_s(problem, machine, sliced, slices, loaded)
    memory = _memory_s(problem, machine)
    if problem.batch == 1:
        compute = np.where(machine.batched, np.inf, compute)
    high, low = np.maximum(compute, memory), np.minimum(compute, memory)
    total = high * (1.0 + (low / high) ** machine.overlap) ** (1.0 / machine.overlap)
    whole = total
    if apart > 1:
        plain, split = total, slices > 1
        slow = machine.bias_split if problem.biased else 1.0
        later_s = machine.bias_split_s if problem.biased else 0.0
        total = total * np.where(split, slow, 1.0) + split * (machine.split_s + later_s)
        whole = total + split * _reduction_s(problem, machine, slices)
        if problem.biased:
            whole = np.where(split & ~_fits_workspace(problem, machine, slices), np.inf, whole)
        if by_turns is not None:
            waited_s = by_turns.seconds(machine.tile_m, machine.tile_n, slices[apart:])
            total[apart:] = whole[apart:] = plain[apart:] + split[apart:] * waited_s
    return _Timed(apart, slices, sliced, compute, memory, total, whole)


def _fits_workspace(problem: Problem, machine: Machine, slices: Numbers) -> NDArray[np.bool_]:
    """Whether there is room for the partial results of so many slices beside a bias.

    They are float32, of half precision those of kernels for rows that begin anywhere.
    """
    item = 4.0 if machine.persistent else min(4.0, problem.out_bytes)
    return slices * (problem.m * problem.n * item) <= machine.bias_room_bytes


def loaded_sides(machine: Machine, rows: Numbers, columns: Numbers) -> Numbers:
    """Rows and columns of the operands that a tile loads itself, in a grid of rows x columns.

    Blocks of one cluster load the operand that they have in common only once.
    """
    saved = machine.shared * np.maximum((rows > 1) * machine.tile_n, (columns > 1) * machine.tile_m)
    return machine.tile_m + machine.tile_n - saved


def _at(problem: Problem, machine: Machine, timed: _Timed, flat: int) -> Plan:
    at = divmod(flat, len(machine.tiles))
    return _as_plan(
        problem,
        machine,
        machine.tiles[at[1]],
        int(timed.slices[at]),
        int(timed.blocks[at]),
        float(timed.total[at]),
        float(timed.compute[at]),
        float(timed.memory[at[1]]),
        at[0] >= timed.turns,
    )


def _slices(problem: Problem, machine: Machine, blocks: Numbers) -> Numbers:
    """How many slices of K to try, one row a choice: 1, and what half or wholly fills the device.

    A slice keeps a few main-loop steps. Products of int8 are not split. Kernels that wait for
    memory within a step have more slices than there are multiprocessors: blocks beside each other
    on one hide the waiting.
    """
    depth = problem.k * problem.item_bytes / machine.step_bytes
    steps = machine.bias_slice_steps if problem.biased else machine.slice_steps
    most = np.minimum(depth // steps, machine.bias_slices if problem.biased else _MOST_SLICES)
    fills = machine.fills
    idle = blocks.min() * 2 <= machine.units * max(1.0, fills[-1])
    if problem.dtype == "int8" or most.max() <= 1.0 or not idle:
        return np.ones((1, len(blocks)))
    filled = [np.minimum(fill * machine.units // blocks, most) for fill in fills]
    return np.maximum([np.ones(len(blocks)), *filled], 1.0)


def _matrix_vector(problem: Problem, machine: Machine, floor_s: float) -> Plan:
    """Matrix times vector: the matrix streams once, a row or two to a block of 128 threads."""
    hot = problem.hot_a and problem.hot_b
    moved = problem.least_bytes
    compute_s = moved / (machine.l2_bytes_per_s * machine.units)
    memory_s = (0.0 if hot else moved) / machine.gemv_bytes_per_s
    blocks = max(1, problem.m * problem.n * problem.batch // 4)
    limiter: Limiter = "l2" if hot else "memory"
    if max(compute_s, memory_s) < floor_s:
        limiter = "latency"
    total = floor_s + max(compute_s, memory_s) + (0.0 if hot else machine.cold_s)
    return Plan(
        total,
        Tile(1, 4, 128, 128),
        1,
        blocks,
        blocks / (8.0 * machine.units),
        compute_s,
        memory_s,
        0.0 if hot else moved - problem.c_bytes,
        problem.c_bytes,
        limiter,
        -(-blocks // machine.units),
        True,
    )


class TileTimes(NamedTuple):
    """What one tile takes on its multiprocessor, seconds, by tile of the machine.

    Attributes:
        multiply: its multiply-adds at the matrix unit's rate.
        load: its operands from L2.
        steps: its main-loop steps where only their latency counts.
        store: writing the tile out.
        loaded_bytes: operands loaded from L2.
    """

    multiply: Numbers
    load: Numbers
    steps: Numbers
    store: Numbers
    loaded_bytes: Numbers


def tile_times(problem: Problem, machine: Machine, slices: Numbers, loaded: Numbers) -> TileTimes:
    """Times of one tile.

    Args:
        problem, machine: what runs where.
        slices: of K.
        loaded: rows and columns of the operands that a tile loads itself.
    """
    steps = np.ceil(problem.k * problem.item_bytes / slices / machine.step_bytes)
    depth = steps * (machine.step_bytes / problem.item_bytes)
    factor = {"NT": machine.layout_nt, "TN": machine.layout_tn}.get(problem.layout, 1.0)
    if problem.item_bytes < problem.aligned < 16:
        factor = 1.0  # two elements a copy already: the layout no longer matters
    loaded_bytes = loaded * steps * machine.step_bytes
    threads = machine.in_turn or machine.vector
    multiply, load = (1.0, factor) if threads else (factor, 1.0)
    wide = np.ones(len(machine.tiles))
    if problem.layout == "NT" and machine.in_turn:
        wide = np.where(machine.tile_m * machine.tile_n > _WIDE, machine.wide_nt, 1.0)
    # Masked rows and columns are computed, but not written.
    m, n = np.minimum(machine.tile_m, problem.m), np.minimum(machine.tile_n, problem.n)
    a_byte_s = (machine.bias_store if problem.biased else 1.0) / machine.store_bytes_per_s
    return TileTimes(
        machine.tile_s_per_k * (multiply * depth),
        load * wide * loaded_bytes / machine.l2_bytes_per_s,
        steps * machine.step_s,
        m * n * (problem.out_bytes * a_byte_s),
        loaded_bytes,
    )


def _arithmetic_s(
    problem: Problem, machine: Machine, blocks: Numbers, slices: Numbers, loaded: Numbers
) -> Numbers:
    """Time of the busiest multiprocessor: its tiles one after the other."""
    one = tile_times(problem, machine, slices, loaded)
    rounds = np.ceil(blocks / machine.units)
    # Blocks that share a multiprocessor hide each other's start, write-out, and latency of steps.
    hidden = np.minimum(machine.resident, rounds)
    around = rounds * (one.store + machine.tile_s) / hidden
    total = main_loop_s(one, rounds, hidden, machine) + around
    return total * (1.0 + machine.throttle * total / (total + machine.throttle_s))


def main_loop_s(one: TileTimes, rounds: Numbers, hidden: Numbers, machine: Machine) -> Numbers:
    """Main loops of the busiest multiprocessor's tiles.

    Matrix units work while loads are under way: the slower sets the pace, and the closer they are,
    the more of either shows (a norm). On the vector lanes the same few warps load and multiply,
    which hides only part of either (32 x 32 tiles of float32 on an H200 take 17 ns a step of K
    alone on a multiprocessor, 24 ns in pairs). Kernels that load element by element hide nothing:
    other blocks of the multiprocessor do, while one waits.

    Args:
        one: times of one tile.
        rounds: tiles that it works through.
        hidden: of these, how many at a time.
        machine: what runs them.
    """
    waiting = np.ceil(rounds / hidden) * one.steps
    if machine.in_turn:
        return rounds * (one.multiply + one.load) + waiting
    busy = (rounds * one.multiply, rounds * one.load)
    if machine.vector:
        return np.hypot(_norm(machine.loop_overlap, *busy), waiting)
    return _norm(machine.loop_overlap, *busy, waiting)


def _norm(exponent: float, *times: Numbers) -> Numbers:
    """What lasts at least as long as each; the smaller the exponent, the longer."""
    paces = np.stack(times)
    high = np.maximum(paces.max(axis=0), 1e-30)  # a sum over nothing takes no time
    together: Numbers = high * ((paces / high) ** exponent).sum(axis=0) ** (1.0 / exponent)
    return together


def reduction_s(problem: Problem, machine: Machine, slices: float) -> float:
    """Time of the kernel that adds up `slices` partial results."""
    return float(_reduction_s(problem, machine, np.array([float(slices)]))[0])


def _reduction_s(problem: Problem, machine: Machine, slices: Numbers) -> Numbers:
    partial = 4.0 * problem.m * problem.n * problem.batch * slices
    moved_s = (partial + problem.c_bytes) / machine.reduce_bytes_per_s
    return machine.reduce_s + machine.slice_s * slices + moved_s


def _memory_s(problem: Problem, machine: Machine) -> Numbers:
    read, written = traffic_bytes(problem, machine, machine.tile_m * machine.tile_n)
    back = machine.dirty_share * np.minimum(read, machine.l2_bytes)
    return (read + written + back) / machine.memory_bytes_per_s


def traffic_bytes(problem: Problem, machine: Machine, area: Numbers) -> tuple[Numbers, float]:
    """Bytes read from and written to device memory, by tile area.

    Operands that fit in L2 together are read once. Otherwise the grid is walked so that re-reads
    are few: either a panel of one operand stays in L2 while the other streams past it, or the
    tiles of one round form a square whose operand slices are shared through L2.
    """
    a, b = problem.a_bytes, problem.b_bytes
    read = problem.extra_read_bytes + (0.0 if problem.hot_a else a) + (0.0 if problem.hot_b else b)
    if a + b <= machine.l2_bytes or problem.batch > 1:
        return np.full_like(area, read), problem.c_bytes
    half = max(machine.l2_bytes / 2, 1.0)
    # A scratchpad keeps a block of sums (float32) as large as it is, while tiles stream by.
    square = np.full_like(area, half / 4) if machine.scratchpad else machine.units * area
    side = np.sqrt(square)
    blocked = a * np.maximum(problem.n / side, 1.0) + b * np.maximum(problem.m / side, 1.0)
    panels = min(b + a * max(b / half, 1.0), a + b * max(a / half, 1.0))
    return problem.extra_read_bytes + np.minimum(blocked, panels), problem.c_bytes


def _as_plan(
    problem: Problem,
    machine: Machine,
    tile: Tile,
    split: int,
    blocks: int,
    total_s: float,
    compute_s: float,
    memory_s: float,
    by_turns: bool,
) -> Plan:
    area = np.array([float(tile.m * tile.n)])
    read, written = traffic_bytes(problem, machine, area)
    limiter: Limiter = "compute" if machine.vector else "tensor_core"
    if memory_s > compute_s:
        limiter = "memory"
    if max(compute_s, memory_s) < machine.floor_s:
        limiter = "latency"
    cold_s = 0.0 if problem.hot_a and problem.hot_b else machine.cold_s
    return Plan(
        machine.floor_s + cold_s + total_s,
        tile,
        split,
        blocks,
        blocks / (machine.units * tile.resident),
        compute_s,
        memory_s,
        float(read[0]),
        written,
        limiter,
        -(-blocks // machine.units),
        machine.vector,
        by_turns and split > 1,
    )
