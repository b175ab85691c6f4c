"""Where the time of a planned matrix product goes: exact parts of what `gemm.plan` adds up.

The parts lead from the ideal to the prediction, one loss after the other, so that they add up to
the kernel's duration: the multiply-adds at the datasheet's peak, then the rate that the library
reaches, rows and columns and depth that tiles compute beside the matrix, multiprocessors without
a tile in the last wave, starting tiles and writing them out, the lower clock under power, what
memory does not hide, and what every launch costs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import ceil

import numpy as np

from gpuscope.cost.matmul.gemm import (
    Machine,
    Plan,
    Problem,
    TileTimes,
    loaded_sides,
    main_loop_s,
    tile_times,
)
from gpuscope.cost.matmul.tiles import Tile


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of one kernel's duration, seconds; they add up to it.

    Attributes:
        peak_s: the useful FLOPs at the dense peak.
        rate_s: more, as the library reaches less than the peak.
        edge_s: more, as the last tiles hang over the matrix's edges.
        feed_s: more, as loads from L2 or the latency of steps hold the main loop up.
        tail_s: more, as multiprocessors idle while the last tiles run.
        tile_s: starting tiles and writing them out.
        throttle_s: more, as the clock falls in long kernels.
        memory_s: more, as device memory is not hidden under all that.
        split_s: writing partial results where K is split, or waiting for the turn to add them.
        start_s: first loads of operands that are not in L2.
        floor_s: the shortest kernel.
        loop_limit: what paces the main loop: "multiply", "load" (from L2) or "steps" (latency).
        tile_loads_bytes: bytes that all tiles together load from L2 into multiprocessors.
    """

    peak_s: float
    rate_s: float
    edge_s: float
    feed_s: float
    tail_s: float
    tile_s: float
    throttle_s: float
    memory_s: float
    split_s: float
    start_s: float
    floor_s: float
    loop_limit: str
    tile_loads_bytes: float

    @property
    def total_s(self) -> float:
        """The kernel's duration."""
        return (
            self.peak_s
            + self.rate_s
            + self.edge_s
            + self.feed_s
            + self.tail_s
            + self.tile_s
            + self.throttle_s
            + self.memory_s
            + self.split_s
            + self.start_s
            + self.floor_s
        )

    def stretched(self, factor: float) -> Parts:
        """The same for a duration that is `factor` times as long: the work at the peak takes what
        it takes, and every loss its share of the rest."""
        lost_s = self.total_s - self.peak_s
        if factor == 1.0 or lost_s <= 0:
            return self
        share = max(0.0, (factor * self.total_s - self.peak_s) / lost_s)
        lost = [f.name for f in fields(self) if f.name.endswith("_s") and f.name != "peak_s"]
        return replace(self, **{name: share * getattr(self, name) for name in lost})


def parts(problem: Problem, machine: Machine, found: Plan, peak_flops_per_s: float) -> Parts:
    """The parts of a planned product's main kernel.

    Args:
        problem, machine: as `plan` took them.
        found: what it gave, or one of `candidates`.
        peak_flops_per_s: dense peak of the compute dtype.
    """
    machine = machine.of(found.tile)
    start = 0.0 if problem.hot_a and problem.hot_b else machine.cold_s
    peak = problem.flops / peak_flops_per_s
    if found.tile not in machine.tiles:  # a matrix-vector kernel streams; it has no tiles
        floor = found.duration_s - start - max(found.compute_s, found.memory_s)
        ideal = min(peak, found.duration_s - start - floor)
        rest = found.duration_s - start - floor - ideal
        return Parts(
            ideal,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            rest,
            0.0,
            start,
            floor,
            "load",
            problem.least_bytes - problem.c_bytes,
        )
    at = machine.tiles.index(found.tile)
    rows, columns = np.ceil(problem.m / machine.tile_m), np.ceil(problem.n / machine.tile_n)
    one = tile_times(
        problem,
        machine,
        np.full(len(machine.tiles), float(found.split)),
        loaded_sides(machine, rows, columns),
    )
    multiply, load, steps, store, loaded = (float(times[at]) for times in one)
    even = found.grid / machine.units
    hidden = min(float(machine.resident[at]), found.rounds)
    taking_turns = ceil(found.rounds / hidden) * steps / found.rounds
    busy = max(multiply, load)
    of_one = TileTimes(*(np.array([float(times[at])]) for times in one))
    turns = np.array([float(found.rounds)]), np.array([hidden])
    each = float(main_loop_s(of_one, *turns, machine)[0]) / found.rounds
    at_rate = even * multiply * _useful_share(problem, machine, found.tile, found.split)
    loop = found.rounds * each
    around = found.rounds * (store + machine.tile_s) / hidden
    split = _split_s(machine, found)
    total = found.duration_s - start - machine.floor_s - split
    limit = "steps" if taking_turns > busy else "multiply" if multiply >= load else "load"
    return Parts(
        peak_s=min(peak, at_rate),
        rate_s=at_rate - min(peak, at_rate),
        edge_s=even * multiply - at_rate,
        feed_s=even * (each - multiply),
        tail_s=loop - even * each,
        tile_s=around,
        throttle_s=found.compute_s - loop - around,
        memory_s=total - found.compute_s,
        split_s=split,
        start_s=start,
        floor_s=machine.floor_s,
        loop_limit=limit,
        tile_loads_bytes=loaded * found.grid,
    )


def _split_s(machine: Machine, found: Plan) -> float:
    """How much longer the kernel takes because K is split."""
    if found.split == 1:
        return 0.0
    if machine.turns is None or not found.by_turns:
        return machine.split_s
    sizes = (np.array([float(n)]) for n in (found.tile.m, found.tile.n, found.split))
    return float(machine.turns.seconds(*sizes)[0])


def _useful_share(problem: Problem, machine: Machine, tile: Tile, split: int) -> float:
    """Multiply-adds that are wanted over those that whole tiles and whole steps compute."""
    rows, columns = ceil(problem.m / tile.m), ceil(problem.n / tile.n)
    step = machine.depth_bytes(tile) / problem.item_bytes
    depth = ceil(problem.k / split / step) * step * split
    return problem.m * problem.n * problem.k / (rows * tile.m * columns * tile.n * depth)
