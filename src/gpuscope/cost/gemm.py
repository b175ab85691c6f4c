"""Time of one matrix product on one device: the best tile under a small physical model.

For each tile that the library has, and a few ways to split K, the time is

    floor + prologue + rounds x max(multiply, load) + epilogue   against   memory traffic

where a round is one tile per multiprocessor, *multiply* runs at the matrix unit's rate, *load* is
the bytes of the tile's operands at what one multiprocessor can draw from L2, and the memory
traffic counts re-reading of operands that outgrow the L2 cache. Both sides overlap, imperfectly
(a p-norm). The library is taken to choose the fastest, as its heuristics nearly do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

from gpuscope.cost.registry import Constants
from gpuscope.cost.tiles import Tile, Unit, cover, split_choices, tiles_for
from gpuscope.cost.types import Limiter
from gpuscope.hardware import Device, rate_name

_L2_SHARE = 0.75
"""Share of the L2 that a working set survives in."""

_DATASHEET_L2_RATIO = 2.0
"""L2 bandwidth over memory bandwidth where neither clock nor unit count is known."""


@dataclass(frozen=True, slots=True)
class Problem:
    """C[M, N] = A[M, K] B[K, N], `batch` times.

    Attributes:
        m, n, k: sizes of one product.
        batch: number of products.
        dtype: compute dtype; "tf32" where float32 is rounded for the tensor cores.
        a_bytes, b_bytes, c_bytes: distinct bytes of both operands and of the result, all
            products together (less than M x K x size where a convolution or a broadcast re-uses).
        extra_read_bytes: bias, or the matrix that is added.
        item_bytes: bytes of one operand element.
        layout: row-major ("N") or transposed ("T") storage of A and of B, e.g. "NT".
        aligned: bytes that every row start is a multiple of (16 suits the fast kernels).
        hot_a, hot_b: the operand is likely in L2 already.
    """

    m: int
    n: int
    k: int
    batch: int
    dtype: str
    a_bytes: float
    b_bytes: float
    c_bytes: float
    item_bytes: float
    extra_read_bytes: float = 0.0
    layout: str = "NT"
    aligned: int = 16
    hot_a: bool = False
    hot_b: bool = False

    @property
    def flops(self) -> float:
        """2 per multiply-add."""
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def least_bytes(self) -> float:
        """Each operand read once, the result written once."""
        return self.a_bytes + self.b_bytes + self.c_bytes + self.extra_read_bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """The kernel that the library is taken to choose, and its time.

    Attributes:
        duration_s: launch floor included.
        tile, split: block tile and slices of K.
        grid, waves: blocks, and blocks over multiprocessors.
        compute_s, memory_s: arithmetic (with its loads from L2) alone, memory traffic alone.
        read_bytes, written_bytes: across device memory.
        limiter: what sets the time.
    """

    duration_s: float
    tile: Tile
    split: int
    grid: int
    waves: float
    compute_s: float
    memory_s: float
    read_bytes: float
    written_bytes: float
    limiter: Limiter


@dataclass(frozen=True, slots=True)
class Machine:
    """A device as the model sees it, for one compute dtype and family of operators.

    Attributes:
        flops_per_s: usable rate of one multiprocessor.
        l2_bytes_per_s: what one multiprocessor can load from L2.
        memory_bytes_per_s: usable device memory bandwidth.
        l2_bytes: usable L2 capacity.
        units: multiprocessors.
        floor_s: shortest kernel, launch overhead on the device included.
        step_s: time of one main-loop step when nothing limits it but latency.
        epilogue_s: writing out one tile.
        split_s: the extra pass that adds up slices of K.
        overlap: exponent of the norm that joins arithmetic and memory time.
        tiles: what the library has.
        efficiency: per tile, relative to the best.
        misaligned: factor on the arithmetic of rows that are not 16-byte aligned.
    """

    flops_per_s: float
    l2_bytes_per_s: float
    memory_bytes_per_s: float
    l2_bytes: float
    units: int
    floor_s: float
    step_s: float
    epilogue_s: float
    split_s: float
    overlap: float
    tiles: tuple[Tile, ...]
    efficiency: tuple[float, ...]
    misaligned: float


def rate_and_unit(device: Device, dtype: str) -> tuple[float, Unit]:
    """Peak FLOP/s for a compute dtype and the unit that reaches it.

    float32 on accelerators without float32 rate runs as six passes of bfloat16 (the "highest"
    precision of XLA on TPUs).

    Raises:
        UnsupportedError: the device cannot compute in this dtype; says in which it can.
    """
    if dtype == "float32":
        if device.supports("float32"):
            return device.peak_flops_per_s("float32", tensor_core=False), "vector"
        if device.supports("bfloat16"):
            return device.peak_flops_per_s("bfloat16") / 6.0, "matrix"
    peak = device.peak_flops_per_s(dtype)
    if dtype == "float64" and "fp64_tensor" not in dict(device.peaks):
        return peak, "vector"
    return peak, "matrix"


@lru_cache(maxsize=256)
def machine_for(device: Device, constants: Constants, dtype: str, family: str) -> Machine:
    """The device under its calibrated constants.

    Constants are read as "<family>.<rate>.<name>", e.g. "matmul.bf16.efficiency".

    Raises:
        UnsupportedError: the device cannot compute in this dtype.
    """
    peak, unit = rate_and_unit(device, dtype)
    key = f"{family}.{rate_name(dtype)}"
    units = device.compute_units or 1
    tiles = tiles_for(device, unit)

    def get(name: str, default: float) -> float:
        return constants.get(f"{key}.{name}", default)

    bandwidth = device.memory_bandwidth_bytes_per_s
    if device.clock_hz is not None and device.warp_size is not None:
        l2 = get("l2_bytes_per_clock_per_unit", 32.0) * device.clock_hz
    else:
        l2 = _DATASHEET_L2_RATIO * bandwidth / units
    return Machine(
        flops_per_s=peak / units * get("efficiency", 0.82 if unit == "matrix" else 0.85),
        l2_bytes_per_s=l2,
        memory_bytes_per_s=bandwidth * get("bandwidth_efficiency", 0.85),
        l2_bytes=float(device.l2_bytes or device.last_level_cache_bytes or 0) * _L2_SHARE,
        units=units,
        floor_s=get("floor_s", device.launch_latency_s or 2.5e-6),
        step_s=get("step_s", 1.0e-7),
        epilogue_s=get("epilogue_s", 1.0e-6),
        split_s=get("split_s", 2.0e-6),
        overlap=get("overlap", 3.0),
        tiles=tiles,
        efficiency=tuple(constants.get(f"{family}.tile.{t.name}", 1.0) for t in tiles),
        misaligned=get("misaligned", 2.0),
    )


def plan(problem: Problem, machine: Machine) -> Plan:
    """The fastest kernel for a product, and its time."""
    best = None
    for tile, efficiency in zip(machine.tiles, machine.efficiency, strict=True):
        blocks = ceil(problem.m / tile.m) * ceil(problem.n / tile.n) * problem.batch
        for split in split_choices(tile, blocks, problem.k, machine.units):
            found = _arithmetic_s(problem, machine, tile, efficiency, blocks * split, split)
            memory = _memory_s(problem, machine, tile)
            total = _join(found, memory, machine.overlap)
            if best is None or total < best[0]:
                best = (total, tile, split, blocks * split, found, memory)
    assert best is not None, "every device has at least one tile"
    return _as_plan(problem, machine, *best)


def _join(compute_s: float, memory_s: float, overlap: float) -> float:
    high, low = (compute_s, memory_s) if compute_s > memory_s else (memory_s, compute_s)
    return high * float((1.0 + (low / high) ** overlap) ** (1.0 / overlap))


def _arithmetic_s(
    problem: Problem, machine: Machine, tile: Tile, efficiency: float, blocks: int, split: int
) -> float:
    """Time of the busiest multiprocessor: its tiles one after the other."""
    depth = ceil(problem.k / split)
    bytes_per_step = tile.k * 2.0
    steps = ceil(depth * problem.item_bytes / bytes_per_step)
    multiply = 2.0 * tile.m * tile.n * depth / (machine.flops_per_s * efficiency)
    rows = tile.m + tile.n if tile.cluster == 1 else max(tile.m, tile.n) / 2 + min(tile.m, tile.n)
    load = rows * steps * bytes_per_step / machine.l2_bytes_per_s
    if problem.aligned < 16:
        multiply, load = multiply * machine.misaligned, load * machine.misaligned
    each = max(multiply, load, steps * machine.step_s)
    rounds = ceil(blocks / machine.units)
    total = rounds * each + machine.epilogue_s
    if split > 1:
        total += machine.split_s
    return total


def _memory_s(problem: Problem, machine: Machine, tile: Tile) -> float:
    read, written = traffic_bytes(problem, machine.l2_bytes, tile, machine.units)
    return (read + written) / machine.memory_bytes_per_s


def traffic_bytes(problem: Problem, l2_bytes: float, tile: Tile, units: int) -> tuple[float, float]:
    """Bytes read from and written to device memory.

    Operands that fit in L2 together are read once. Otherwise the grid is walked so that re-reads
    are few: either a panel of one operand stays in L2 while the other streams past it, or the
    tiles of one round form a square whose operand slices are shared through L2.
    """
    a, b = problem.a_bytes, problem.b_bytes
    read = problem.extra_read_bytes + (0.0 if problem.hot_a else a) + (0.0 if problem.hot_b else b)
    if a + b > l2_bytes and problem.batch == 1:
        half = max(l2_bytes / 2, 1.0)
        side = sqrt(units * tile.m * tile.n)
        square = a * max(problem.n / side, 1.0) + b * max(problem.m / side, 1.0)
        panels = min(b + a * max(b / half, 1.0), a + b * max(a / half, 1.0))
        read = problem.extra_read_bytes + max(min(square, panels), a + b)
    return read, problem.c_bytes


def _as_plan(
    problem: Problem, machine: Machine, total: float, tile: Tile, split: int, blocks: int,
    compute_s: float, memory_s: float,
) -> Plan:  # fmt: skip
    read, written = traffic_bytes(problem, machine.l2_bytes, tile, machine.units)
    grid = cover(tile, problem.m, problem.n, problem.batch, split, machine.units)
    limiter: Limiter = "tensor_core" if compute_s >= memory_s else "memory"
    if max(compute_s, memory_s) < machine.floor_s:
        limiter = "latency"
    return Plan(
        machine.floor_s + total, tile, split, blocks, grid.waves / tile.resident,
        compute_s, memory_s, read, written, limiter,
    )  # fmt: skip
