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
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuscope.cost.registry import Constants
from gpuscope.cost.tiles import Choice, Tile, Unit, tiles_for
from gpuscope.cost.types import Limiter
from gpuscope.hardware import Device, rate_name

Numbers: TypeAlias = NDArray[np.float64]

_L2_SHARE = 0.75
"""Share of the L2 that a working set survives in."""

_MOST_SLICES = 64.0
"""Most slices of K."""

_REACH = {"AMD": 0.65}
"""How much of their peak a vendor's libraries reach, relative to NVIDIA's: large bfloat16 products
ran at 620 of 1,307 TFLOP/s on an MI300X, at 720 of 989 on an H100 (SemiAnalysis, December 2024)."""

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
        biased: a bias row is added as tiles are written out.
        item_bytes: bytes of one operand element.
        out_bytes: bytes of one element of the result.
        layout: row-major ("N") or transposed ("T") storage of A and of B, e.g. "NT".
        aligned: bytes that every row start is a multiple of (16 suits the fast kernels).
        out_aligned: the same for rows of the result only.
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
    out_bytes: float = 2.0
    extra_read_bytes: float = 0.0
    biased: bool = False
    layout: str = "NT"
    aligned: int = 16
    out_aligned: int = 16
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
        rounds: tiles that the busiest multiprocessor works through.
        vector: runs on the vector lanes.
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
    rounds: int
    vector: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """A device as the model sees it, for one compute dtype and family of operators.

    Attributes:
        l2_bytes_per_s: what one multiprocessor can load from L2.
        memory_bytes_per_s: usable device memory bandwidth.
        l2_bytes: usable L2 capacity.
        units: multiprocessors.
        floor_s: shortest kernel, launch overhead on the device included.
        step_bytes: depth of one main-loop step.
        step_s: its time when only latency limits it.
        tile_s: start of a tile that its neighbours do not hide.
        store_bytes_per_s: at which one multiprocessor writes a tile out.
        bias_store: factor on that time where a bias is added.
        aligned_store: how many times faster, where operands have unaligned rows but it has not.
        cold_s: added latency of the first loads where an operand is not in L2.
        split_s: writing partial results where K is split.
        reduce_s: floor of the kernel that adds up slices of K.
        overlap: exponent of the norm that joins arithmetic and memory time.
        layout_nt, layout_tn: factors on the arithmetic in these layouts, which some kernels must
            transpose on the way.
        gemv_s: floor of a matrix-vector product, where that has a kernel of its own; else None.
        gemv_bytes_per_s: memory bandwidth that such a kernel reaches.
        dirty_share: share of what a kernel's reads push out of L2 that must be written back, left
            there by earlier kernels.
        throttle, throttle_s: at the power limit the clock falls; arithmetic that lasts long takes
            up to 1 + throttle times as long, half of that at `throttle_s`.
        vector: runs on the vector lanes, there is no matrix unit for the dtype.
        tiles: what the library has.
        tile_m, tile_n, tile_s_per_k, shared: their sizes, arithmetic time for each element of
            depth, and the share of one operand that a multicast from the neighbour saves, as
            arrays.
    """

    l2_bytes_per_s: float
    memory_bytes_per_s: float
    l2_bytes: float
    units: int
    floor_s: float
    step_bytes: float
    step_s: float
    tile_s: float
    store_bytes_per_s: float
    bias_store: float
    aligned_store: float
    cold_s: float
    split_s: float
    reduce_s: float
    overlap: float
    layout_nt: float
    layout_tn: float
    gemv_s: float | None
    gemv_bytes_per_s: float
    dirty_share: float
    throttle: float
    throttle_s: float
    vector: bool
    tiles: tuple[Tile, ...]
    tile_m: Numbers
    tile_n: Numbers
    shared: Numbers
    tile_s_per_k: Numbers


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
def machine_for(
    device: Device, constants: Constants, dtype: str, family: str, aligned: int = 16
) -> Machine:
    """The device under its calibrated constants.

    Constants are read as "<family>.<rate>.<name>", e.g. "matmul.bf16.efficiency". On NVIDIA
    devices rows that are not 16-byte aligned rule out the fast copies: other kernels, with
    constants of their own ("matmul.bf16_unaligned.efficiency").

    Raises:
        UnsupportedError: the device cannot compute in this dtype.
    """
    peak, unit = rate_and_unit(device, dtype)
    rate = rate_name(dtype)
    unaligned = aligned < 16 and unit == "matrix" and device.vendor == "NVIDIA"
    key = f"{family}.{rate}_unaligned" if unaligned else f"{family}.{rate}"
    choice: Choice = "any width" if rate in ("bf16", "fp16", "fp8") else "fixed"
    tiles = tiles_for(
        device, unit, "earlier" if unaligned else choice if family == "matmul" else "fixed"
    )

    def get(name: str, default: float) -> float:
        return constants.get(f"{key}.{name}", default)

    units = device.compute_units or 1
    bandwidth = device.memory_bandwidth_bytes_per_s
    if device.clock_hz is not None and device.warp_size is not None:
        l2 = get("l2_bytes_per_clock_per_unit", 44.0) * device.clock_hz
        store = get("store_bytes_per_clock_per_unit", 30.0) * device.clock_hz
    else:
        l2 = store = _DATASHEET_L2_RATIO * bandwidth / units
    efficiency = get("efficiency", 0.15 if unaligned else 0.85)
    if not constants.calibrated:
        efficiency *= _REACH.get(device.vendor, 1.0)
    if unaligned and aligned >= 4:
        efficiency *= get("wider_rows", 1.7)
    tile_m = np.array([t.m for t in tiles], dtype=float)
    tile_n = np.array([t.n for t in tiles], dtype=float)
    cluster = np.array([t.cluster for t in tiles], dtype=float)
    # Narrow tiles re-read shared memory more often for each multiply-add.
    side = 2.0 * tile_m * tile_n / (tile_m + tile_n)
    relative = side / (side + get("narrow", 15.0 if unit == "vector" else 1e-3))
    blocks = device.warp_size is not None  # else tiles stream through without launching each
    own_gemv = unit == "vector" or unaligned or rate == "tf32"
    return Machine(
        l2_bytes_per_s=l2,
        memory_bytes_per_s=bandwidth * get("bandwidth_efficiency", 0.88),
        l2_bytes=float(device.l2_bytes or device.last_level_cache_bytes or 0) * _L2_SHARE,
        units=units, floor_s=get("floor_s", 1.8e-6),
        step_bytes=2.0 * tiles[0].k, step_s=get("step_s_per_byte", 2.3e-10) * 2.0 * tiles[0].k * blocks,
        tile_s=get("tile_s", 5e-7) * blocks, store_bytes_per_s=store,
        bias_store=get("bias_store", 1.8), aligned_store=get("aligned_store", 1.0),
        cold_s=get("cold_s", 7e-7),
        split_s=get("split_s", 1.8e-6), reduce_s=get("reduce_s", 1.5e-6),
        overlap=get("overlap", 4.0), layout_nt=get("layout_nt", 1.0),
        layout_tn=get("layout_tn", 1.0),
        gemv_s=get("gemv_s", 2.2e-6) if own_gemv and device.vendor == "NVIDIA" else None,
        gemv_bytes_per_s=bandwidth * get("gemv_bandwidth_efficiency", 0.8),
        dirty_share=constants.get("matmul.dirty_l2_share", 0.1),
        throttle=get("throttle", 0.1), throttle_s=get("throttle_s", 8e-4),
        vector=unit == "vector", tiles=tiles, tile_m=tile_m, tile_n=tile_n,
        shared=1.0 - 1.0 / cluster,
        tile_s_per_k=2.0 * tile_m * tile_n / (peak / units * efficiency * relative),
    )  # fmt: skip


def plan(problem: Problem, machine: Machine) -> Plan:
    """The fastest kernel for a product, and its time."""
    if machine.gemv_s is not None and min(problem.m, problem.n) == 1 and problem.k > 1:
        return _matrix_vector(problem, machine, machine.gemv_s)
    rows, columns = np.ceil(problem.m / machine.tile_m), np.ceil(problem.n / machine.tile_n)
    blocks = rows * columns * problem.batch
    # Blocks of one cluster load the operand that they have in common only once.
    saved = machine.shared * np.maximum((rows > 1) * machine.tile_n, (columns > 1) * machine.tile_m)
    loaded = machine.tile_m + machine.tile_n - saved
    slices = _slices(problem, machine, blocks)
    sliced = blocks * slices
    compute = _arithmetic_s(problem, machine, sliced, slices, loaded)
    memory = _memory_s(problem, machine)
    high, low = np.maximum(compute, memory), np.minimum(compute, memory)
    total = high * (1.0 + (low / high) ** machine.overlap) ** (1.0 / machine.overlap)
    whole = total
    if len(slices) > 1:
        split = slices > 1
        total = total + split * machine.split_s
        whole = total + split * _reduction_s(problem, machine, slices)
    at = divmod(int(whole.argmin()), len(machine.tiles))
    return _as_plan(
        problem, machine, machine.tiles[at[1]], int(slices[at]), int(sliced[at]),
        float(total[at]), float(compute[at]), float(memory[at[1]]),
    )  # fmt: skip


def _slices(problem: Problem, machine: Machine, blocks: Numbers) -> Numbers:
    """How many slices of K to try, one row a choice: 1, and what half or wholly fills the device.

    A slice keeps at least eight main-loop steps.
    """
    depth = problem.k * problem.item_bytes / machine.step_bytes
    most = min(max(depth // 8, 1.0), _MOST_SLICES)
    if most == 1.0 or blocks.min() * 2 > machine.units:
        return np.ones((1, len(blocks)))
    choices = np.ones((3, len(blocks)))
    np.minimum(machine.units // blocks, most, out=choices[2])
    np.maximum(choices[2], 1.0, out=choices[2])
    np.maximum(choices[2] // 2, 1.0, out=choices[1])
    return choices


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
        total, Tile(1, 4, 128, 128), 1, blocks, blocks / (8.0 * machine.units), compute_s,
        memory_s, 0.0 if hot else moved - problem.c_bytes, problem.c_bytes, limiter,
        -(-blocks // machine.units), True,
    )  # fmt: skip


def _arithmetic_s(
    problem: Problem, machine: Machine, blocks: Numbers, slices: Numbers, loaded: Numbers
) -> Numbers:
    """Time of the busiest multiprocessor: its tiles one after the other."""
    steps = np.ceil(problem.k * problem.item_bytes / slices / machine.step_bytes)
    depth = steps * (machine.step_bytes / problem.item_bytes)
    factor = {"NT": machine.layout_nt, "TN": machine.layout_tn}.get(problem.layout, 1.0)
    multiply = machine.tile_s_per_k * (factor * depth)
    load = loaded * steps * (machine.step_bytes / machine.l2_bytes_per_s)
    each = np.maximum(np.maximum(multiply, load), steps * machine.step_s)
    # Masked rows and columns are computed, but not written.
    m, n = np.minimum(machine.tile_m, problem.m), np.minimum(machine.tile_n, problem.n)
    a_byte_s = (machine.bias_store if problem.biased else 1.0) / machine.store_bytes_per_s
    if problem.aligned < 16 <= problem.out_aligned:
        a_byte_s /= machine.aligned_store
    store = m * n * (problem.out_bytes * a_byte_s)
    rounds = np.ceil(blocks / machine.units)
    total = rounds * (each + store + machine.tile_s)
    return total * (1.0 + machine.throttle * total / (total + machine.throttle_s))


def reduction_s(problem: Problem, machine: Machine, slices: float) -> float:
    """Time of the kernel that adds up `slices` partial results."""
    return float(_reduction_s(problem, machine, np.array([float(slices)]))[0])


def _reduction_s(problem: Problem, machine: Machine, slices: Numbers) -> Numbers:
    partial = 4.0 * problem.m * problem.n * problem.batch * slices
    return machine.reduce_s + (partial + problem.c_bytes) / (0.55 * machine.memory_bytes_per_s)


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
    side = np.sqrt(machine.units * area)
    square = a * np.maximum(problem.n / side, 1.0) + b * np.maximum(problem.m / side, 1.0)
    panels = min(b + a * max(b / half, 1.0), a + b * max(a / half, 1.0))
    return problem.extra_read_bytes + np.minimum(square, panels), problem.c_bytes


def _as_plan(
    problem: Problem, machine: Machine, tile: Tile, split: int, blocks: int, total_s: float,
    compute_s: float, memory_s: float,
) -> Plan:  # fmt: skip
    area = np.array([float(tile.m * tile.n)])
    read, written = traffic_bytes(problem, machine, area)
    limiter: Limiter = "compute" if machine.vector else "tensor_core"
    if memory_s > compute_s:
        limiter = "memory"
    if max(compute_s, memory_s) < machine.floor_s:
        limiter = "latency"
    cold_s = 0.0 if problem.hot_a and problem.hot_b else machine.cold_s
    return Plan(
        machine.floor_s + cold_s + total_s, tile, split, blocks,
        blocks / (machine.units * tile.resident), compute_s, memory_s, float(read[0]), written,
        limiter, -(-blocks // machine.units), machine.vector,
    )  # fmt: skip
