"""A device as the matrix product model sees it: usable rates and latencies under a calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuscope.cost.bandwidth import L2_SHARE
from gpuscope.cost.matmul.choice import GemmKernels, gemm_kernels_of, has_both, is_hopper
from gpuscope.cost.matmul.tiles import Tile, Unit, tiles_for
from gpuscope.cost.registry import Constants
from gpuscope.hardware import Device, rate_name

Numbers: TypeAlias = NDArray[np.float64]

_DATASHEET_L2_RATIO = 22.0
"""On-chip over memory bandwidth of devices that are no multiprocessors behind an L2: a TPU's
scratchpads have about 22 times the bandwidth of its memory (Austin et al., "How to Scale Your
Model", 2025, chapter 2); what others have no sheet says."""

_LENT_BYTES = 2.0**20
"""Room that PyTorch lends cuBLASLt, which adds rows (ATen/cuda/CUDABlas.cpp, `CUBLASLT_WORKSPACE_
SIZE`). Of 124 recorded products with a bias whose slices of K another kernel adds up none needs
more."""

_UNKNOWN_CACHE_BYTES = 33_554_432
"""On-chip memory where no sheet states it; most accelerators have 32 to 128 MiB."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A kernel for few rows, whose threads walk K (`gpuscope.cost.matmul.few_rows`).

    Attributes:
        floor_s: its shortest time.
        cold_s: more, where an operand is not in L2.
        k_s: for each element of K.
        cold_walk: how many times as long where an operand is not in L2.
        bytes_per_s: that a multiprocessor loads.
        memory_bytes_per_s: of device memory that it reaches.
        fewest_blocks: from which on the library takes it.
    """

    floor_s: float
    cold_s: float
    k_s: float
    cold_walk: float
    bytes_per_s: float
    memory_bytes_per_s: float
    fewest_blocks: int = 1


@dataclass(frozen=True, slots=True)
class Turns:
    """How slices of K are added up in place: a block waits for its turn at its tile.

    A semaphore of each tile says whose turn it is (they are cleared by a memset before). cuBLASLt
    does so where the epilogue adds a row, which only whole sums may be given. A turn is a trip to
    the semaphore and the tile of float32 read from and written to L2. Recorded on an H200, 122
    products: 26 % off without turns, 10 % with them.

    Attributes:
        start_s: the kernel with turns over one without.
        turn_s: each turn but the first.
        bytes_per_s: of the tile, at which one multiprocessor does.
    """

    start_s: float
    turn_s: float
    bytes_per_s: float

    def seconds(self, tile_m: Numbers, tile_n: Numbers, slices: Numbers) -> Numbers:
        """How much longer a kernel takes for it."""
        turn_s = self.turn_s + 4.0 * tile_m * tile_n / self.bytes_per_s
        return self.start_s + (slices - 1.0) * turn_s


@dataclass(frozen=True, slots=True)
class Machine:
    """A device as the model sees it, for one compute dtype and family of operators.

    Attributes:
        l2_bytes_per_s: what one multiprocessor can load from L2.
        memory_bytes_per_s: usable device memory bandwidth.
        l2_bytes: usable L2 capacity.
        units: multiprocessors.
        floor_s: shortest kernel, launch overhead on the device included.
        step_bytes: depth of one main-loop step, by tile.
        step_s: its time when only latency limits it, by tile.
        in_turn: a step waits, loads and multiplies one after the other, as kernels do that load
            element by element; else the slowest of the three sets the pace.
        loop_overlap: exponent of the norm that joins a step's multiply-adds and loads, on the
            matrix unit with its waiting; the larger, the more hide behind the slowest.
        fills: how often the slices of K may fill the device.
        slice_steps, bias_slice_steps: main-loop steps that a slice of K keeps at least, without and
            with a bias.
        tile_s: start of a tile that its neighbours do not hide.
        store_bytes_per_s: at which one multiprocessor writes a tile out.
        bias_store: factor on that time where a bias is added.
        bias_slices, bias_split: most slices of K where a bias is added, and how much longer they
            take. cuBLAS has no plain kernel of float32 for both: sums are cleared before, added up
            by turns, or an old kernel is taken ("sgemm_largek") and the row added after it.
        bias_split_s: how much longer they take, whatever they multiply.
        cold_s: added latency of the first loads where an operand is not in L2.
        split_s: writing partial results where K is split.
        reduce_s: floor of the kernel that adds up slices of K.
        slice_s: more for each slice.
        reduce_bytes_per_s: at which it reads and writes.
        overlap: exponent of the norm that joins arithmetic and memory time.
        layout_nt, layout_tn: factors on the arithmetic in these layouts, which some kernels must
            transpose on the way; on the loads, where the same threads load and multiply.
        wide_nt: factor on the loads of tiles larger than 128 x 128 in NT, of single elements.
        gemv_s: floor of a matrix-vector product, where that has a kernel of its own; else None.
        gemv_bytes_per_s: memory bandwidth that such a kernel reaches.
        walks: kernels for few rows, by layout, where there are.
        dirty_share: share of what a kernel's reads push out of L2 that must be written back, left
            there by earlier kernels.
        throttle, throttle_s: at the power limit the clock falls; arithmetic that lasts long takes
            up to 1 + throttle times as long, half of that at `throttle_s`.
        vector: runs on the vector lanes, there is no matrix unit for the dtype.
        tiles: what the library has.
        tile_m, tile_n, tile_s_per_k, shared, resident: their sizes, arithmetic time for each
            element of depth, the share of one operand that a multicast from the neighbour saves,
            blocks that share a multiprocessor, and whether batches alone have it, as arrays.
        efficiency: share of the peak that large tiles reach.
        by_one: the library chooses a batch's tile as for one product. Tensile's of rocBLAS did so
            for 2,435 sizes on an MI210, whatever the batch (kernel names in the measurements that
            benchmarks/fit/published_operators.py reads).
        scratchpad: operands and sums wait in memory that the program manages, not in caches.
        bias_room_bytes: room for partial results where a bias is added.
        turns: how slices of K may be added up in place where a row is added, None where they never
            are.
        persistent: as many blocks as there are multiprocessors draw tiles one after the other.
        beside: kernels of an earlier generation that the library has for the same products, where
            it has; the quicker are taken.
    """

    l2_bytes_per_s: float
    memory_bytes_per_s: float
    l2_bytes: float
    units: int
    floor_s: float
    step_bytes: Numbers
    step_s: Numbers
    in_turn: bool
    loop_overlap: float
    fills: tuple[float, ...]
    slice_steps: float
    bias_slice_steps: float
    tile_s: float
    store_bytes_per_s: float
    bias_store: float
    bias_slices: float
    bias_split: float
    bias_split_s: float
    cold_s: float
    split_s: float
    reduce_s: float
    slice_s: float
    reduce_bytes_per_s: float
    overlap: float
    layout_nt: float
    layout_tn: float
    wide_nt: float
    gemv_s: float | None
    gemv_bytes_per_s: float
    walks: Mapping[str, Walk]
    dirty_share: float
    throttle: float
    throttle_s: float
    vector: bool
    tiles: tuple[Tile, ...]
    tile_m: Numbers
    tile_n: Numbers
    shared: Numbers
    resident: Numbers
    batched: NDArray[np.bool_]
    tile_s_per_k: Numbers
    efficiency: float = 1.0
    by_one: bool = False
    scratchpad: bool = False
    bias_room_bytes: float = inf
    turns: Turns | None = None
    persistent: bool = False
    beside: Machine | None = None

    def takes(self, batch: int) -> bool:
        """Whether there is a kernel for so many products."""
        return batch > 1 or not bool(self.batched.all())

    def of(self, tile: Tile) -> Machine:
        """The kernels that a tile is of: these, or those beside them."""
        other = self.beside
        return other if other and tile in other.tiles and tile not in self.tiles else self

    def depth_bytes(self, tile: Tile) -> float:
        """Depth of one main-loop step of a tile; of any, where it is not the library's."""
        return float(self.step_bytes[self.tiles.index(tile) if tile in self.tiles else 0])


def rate_and_unit(device: Device, dtype: str) -> tuple[float, Unit]:
    """Peak FLOP/s for a compute dtype and the unit that reaches it.

    float32 on accelerators without float32 rate runs as six passes of bfloat16 (the "highest"
    precision of XLA on TPUs).

    Raises:
        UnsupportedError: the device cannot compute in this dtype; says in which it can.
    """
    if dtype == "float32":
        if "fp32_tensor" in dict(device.peaks):  # matrix units that multiply true float32 (CDNA)
            return device.peak_flops_per_s("float32"), "matrix"
        if device.supports("float32") and device.warp_size is None:
            return device.peak_flops_per_s("float32"), "matrix"  # arrays, at a rate of their own
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
    """The device under its calibrated constants, with the kernels beside (`_machine`).

    On Hopper TF32 has kernels of its own and those of compute capability 8.0: its own want both
    operands dense along K, and take three times as long for gradients of weights. Of int8 either
    one or the other is taken (`gpuscope.cost.matmul.gemm`). Batches whose
    rows begin anywhere have the vector lanes' kernels, too: 113 of 168 recorded ran there.
    """
    found = _machine(device, constants, dtype, family, aligned)
    if found.in_turn and rate_name(dtype) == "tf32" and is_hopper(device, family):
        ffma = _machine(device, constants, "float32", family, aligned)
        return replace(found, beside=replace(ffma, batched=np.ones(len(ffma.tiles), bool)))
    if found.in_turn or not has_both(device, rate_name(dtype), family):
        return found
    return replace(found, beside=_machine(device, constants, dtype, family, aligned, earlier=True))


def _machine(
    device: Device,
    constants: Constants,
    dtype: str,
    family: str,
    aligned: int,
    earlier: bool = False,
) -> Machine:
    """The device under its calibrated constants.

    Constants are those of the first of `GemmKernels.places` that has them, e.g.
    "matmul.bf16.efficiency". "reach" says how much of their peak the vendor's libraries reach,
    relative to those that the efficiency was found with.

    Raises:
        UnsupportedError: the device cannot compute in this dtype.
    """
    peak, unit = rate_and_unit(device, dtype)
    rate = rate_name(dtype)
    kernels = gemm_kernels_of(device, rate, unit, family, aligned, earlier)
    single, ffma = kernels.single, kernels.ffma

    def get(name: str) -> float:
        return constants.value(*(f"{place}.{name}" for place in kernels.places))

    efficiency = _efficiency(device, constants, dtype, family, kernels, get)
    tiles = tiles_for(device, unit, kernels.tiles)
    units = device.compute_units or 1
    tile_m, tile_n, tile_s_per_k = _tile_times(tiles, peak / units * efficiency, get("narrow"))
    l2, store = _on_chip_rates(device, get)
    bandwidth = device.memory_bandwidth_bytes_per_s * constants.value("bandwidth.reach")
    step_bytes = np.array([2.0 * (t.k if single else tiles[0].k) for t in tiles])
    per_byte = 0.0 if single else get("step_s_per_byte")
    blocks = device.warp_size is not None  # else tiles stream through without launching each
    vector, unaligned = unit == "vector", kernels.unaligned
    own_gemv = device.vendor == "NVIDIA" and (vector or unaligned or rate == "tf32")
    return Machine(
        l2_bytes_per_s=l2,
        memory_bytes_per_s=bandwidth * get("bandwidth_efficiency"),
        l2_bytes=_cache_bytes(device) * L2_SHARE,
        units=units,
        floor_s=get("floor_s"),
        step_bytes=step_bytes,
        step_s=blocks * (np.full(len(tiles), get("wait_s")) if single else per_byte * step_bytes),
        in_turn=single,
        loop_overlap=get("loop_overlap"),
        fills=(0.5, 1.0, 2.0, 3.0) if single else (0.5, 1.0, 2.0) if ffma else (0.5, 1.0),
        slice_steps=get("slice_steps"),
        bias_slice_steps=get("bias_slice_steps"),
        tile_s=get("tile_s") * blocks,
        store_bytes_per_s=store,
        bias_store=get("bias_store"),
        bias_slices=get("bias_slices"),
        bias_split=get("bias_split"),
        bias_split_s=get("bias_split_s"),
        cold_s=get("cold_s"),
        split_s=get("split_s"),
        reduce_s=get("reduce_s"),
        slice_s=get("slice_s"),
        reduce_bytes_per_s=get("reduce_share") * bandwidth * get("bandwidth_efficiency"),
        overlap=get("overlap"),
        layout_nt=get("layout_nt"),
        layout_tn=get("layout_tn"),
        wide_nt=get("wide_nt"),
        gemv_s=get("gemv_s") if own_gemv else None,
        gemv_bytes_per_s=bandwidth * get("gemv_bandwidth_efficiency"),
        walks=_walks(device, constants, rate) if vector or (single and unaligned) else {},
        dirty_share=constants.value("matmul.dirty_l2_share"),
        throttle=get("throttle"),
        throttle_s=get("throttle_s"),
        vector=vector,
        tiles=tiles,
        tile_m=tile_m,
        tile_n=tile_n,
        shared=np.array([1.0 - 1.0 / t.cluster for t in tiles]),
        resident=np.array([float(t.resident) for t in tiles]),
        batched=np.array([t.batched for t in tiles]),
        tile_s_per_k=tile_s_per_k,
        efficiency=efficiency,
        by_one=device.vendor == "AMD",
        scratchpad=not blocks,
        bias_room_bytes=_LENT_BYTES if unit == "matrix" and device.vendor == "NVIDIA" else inf,
        turns=_turns(device, constants) if kernels.turns else None,
        persistent=kernels.persistent,
    )


def _efficiency(
    device: Device,
    constants: Constants,
    dtype: str,
    family: str,
    kernels: GemmKernels,
    get: Callable[[str], float],
) -> float:
    """Share of the peak that large tiles reach; see `_unaligned_efficiency` for unaligned rows that
    nobody measured."""
    efficiency = get("efficiency")
    if not constants.calibrated:
        efficiency *= get("reach")
    if kernels.wider and family != "matmul":
        efficiency *= get("wider_rows")
    carried = not constants.own(f"{kernels.key}.efficiency") and family == "matmul"
    if kernels.unaligned and carried and device.compute_units and device.clock_hz:
        plain = machine_for(device, constants, dtype, family).efficiency
        peak, _ = rate_and_unit(device, dtype)
        clock_flops = peak / (device.compute_units * device.clock_hz)
        load_flops = get("flops_per_clock_per_unit")
        return plain if kernels.single else _unaligned_efficiency(plain, clock_flops, load_flops)
    return efficiency


def _unaligned_efficiency(plain: float, clock_flops: float, load_flops: float) -> float:
    """Share of the peak where narrow loads take turns with the matrix unit.

    A multiprocessor's loads of single elements feed so many FLOPs a clock, whatever its matrix
    unit could do: found on an H200 for bfloat16 and for TF32, whose matrix unit is half as fast,
    nearly the same (690 and 580). So a device with a slower matrix unit loses less of it, and one
    with a faster one more.

    Args:
        plain: share of the peak with aligned rows.
        clock_flops: peak, FLOP a clock of one multiprocessor.
        load_flops: FLOP a clock that the loads of one multiprocessor feed.
    """
    return 1.0 / (1.0 / plain + clock_flops / load_flops)


def _turns(device: Device, constants: Constants) -> Turns | None:
    """How slices are added up in place, where the clock of the multiprocessors is known."""
    if not device.clock_hz:
        return None
    get, key = constants.value, "matmul.turns"
    rate = get(f"{key}.bytes_per_clock_per_unit") * device.clock_hz
    return Turns(get(f"{key}.start_s"), get(f"{key}.turn_s"), rate)


def _walks(device: Device, constants: Constants, rate: str) -> dict[str, Walk]:
    """Kernels for few rows of a rate, by layout."""
    if device.vendor != "NVIDIA" or not device.clock_hz:
        return {}
    layouts = {"bf16": ("NN",), "fp16": ("NN",), "tf32": ("NT",)}.get(rate, ("NT", "NN"))
    found = {}
    for layout in layouts:
        key = f"matmul.few_rows.{layout.lower()}"
        bandwidth = constants.value(f"{key}.bandwidth_efficiency")
        found[layout] = Walk(
            floor_s=constants.value(f"{key}.floor_s"),
            cold_s=constants.value(f"{key}.cold_s"),
            k_s=constants.value(f"{key}.k_s"),
            cold_walk=constants.value(f"{key}.cold_walk"),
            bytes_per_s=constants.value(f"{key}.bytes_per_clock_per_unit") * device.clock_hz,
            memory_bytes_per_s=device.memory_bandwidth_bytes_per_s * bandwidth,
            fewest_blocks=2 * (device.compute_units or 1) if rate == "tf32" else 1,
        )
    return found


def _tile_times(
    tiles: tuple[Tile, ...], flops_per_s: float, narrow: float
) -> tuple[Numbers, Numbers, Numbers]:
    """Rows, columns and arithmetic time for each element of depth, by tile.

    Narrow tiles re-read shared memory more often for each multiply-add: a tile of `narrow` rows
    and columns reaches half the rate.
    """
    tile_m = np.array([float(t.m) for t in tiles])
    tile_n = np.array([float(t.n) for t in tiles])
    side = 2.0 * tile_m * tile_n / (tile_m + tile_n)
    return tile_m, tile_n, 2.0 * tile_m * tile_n * (1.0 + narrow / side) / flops_per_s


def _on_chip_rates(device: Device, get: Callable[[str], float]) -> tuple[float, float]:
    """Bytes/s that one multiprocessor loads from L2, and at which it writes a tile out."""
    if device.clock_hz is not None and device.warp_size is not None:
        load = get("l2_bytes_per_clock_per_unit")
        store = get("store_bytes_per_clock_per_unit")
        return load * device.clock_hz, store * device.clock_hz
    units = device.compute_units or 1
    rate = _DATASHEET_L2_RATIO * device.memory_bandwidth_bytes_per_s / units
    return rate, rate


def _cache_bytes(device: Device) -> float:
    """What keeps operands on the chip: L2, a last-level cache, or scratchpads."""
    known = device.l2_bytes or device.last_level_cache_bytes or device.on_chip_sram_bytes
    return float(known or _UNKNOWN_CACHE_BYTES)
