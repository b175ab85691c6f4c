"""Which of a library's kernels multiply matrices: by rate, by device and by where rows begin.

On NVIDIA devices rows that are not 16-byte aligned rule out the fast copies: other kernels load
element by element ("odd"), or two or four elements at a time by asynchronous copies ("unaligned").
Threads of every GPU load so. Compilers of systolic arrays pad rows to whole tiles in memory (XLA:
8 x 128), so it does not matter there.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.matmul.tiles import Choice, Unit
from gpuscope.hardware import Device

_ITEM_BYTES = {"bf16": 2, "fp16": 2, "tf32": 4, "fp8": 1, "int8": 1}
"""Bytes of an operand's element by rate."""

_SINGLE: dict[str, Choice] = {"bf16": "single bf16", "fp16": "single fp16", "tf32": "single tf32"}
"""Rates whose products load element by element where rows begin anywhere. A load of float32 is
never of 16 bytes then, so rows of 8 bytes have the same kernels."""

_PERSISTENT = ("bf16", "fp16", "fp8", "tf32")
"""Rates of products by Hopper's own kernels whose blocks draw tiles: of 66 recorded ones of int8
and float64 two did."""

_GENERATIONS: dict[str, tuple[Choice, Choice]] = {
    "tf32": ("fixed", "mma tf32"),
    "int8": ("wgmma int8", "integer"),
}
"""Tiles of Hopper's own kernels and of those of compute capability 8.0, where there are both."""


@dataclass(frozen=True, slots=True)
class GemmKernels:
    """Kernels, and where their constants are.

    Attributes:
        key: place of their constants, "<family>.<rate>": "matmul.bf16", "matmul.bf16_odd".
        places: of constants, the first first: those of one of two generations
            ("matmul.wgmma_tf32", "matmul.mma_tf32" before), `key`, cuBLASLt's sum over slices of K
            ("matmul.slices"), and where nobody found them "gemm.<variant>" and "gemm".
        tiles: which the library has.
        unaligned: threads load what begins anywhere.
        wider: they load two or four elements at a time, or might.
        single: they load element by element, by kernels that were recorded.
        ffma: Hopper's kernels on the vector lanes.
        persistent: Hopper's own, whose blocks draw tiles one after the other.
        turns: their blocks may add slices of K up in place.
    """

    key: str
    places: tuple[str, ...]
    tiles: Choice
    unaligned: bool
    wider: bool
    single: bool
    ffma: bool
    persistent: bool
    turns: bool


def gemm_kernels_of(
    device: Device, rate: str, unit: Unit, family: str, aligned: int, earlier: bool = False
) -> GemmKernels:
    """The kernels for one sort of product.

    Args:
        device: whose library it is.
        rate: by which the dtype's peak is named, "bf16".
        unit: that multiplies.
        family: "matmul", or a pass of a convolution.
        aligned: bytes that rows begin at multiples of.
        earlier: of two generations of kernels the earlier.
    """
    # Elements of four bytes fill a load of their own on others than NVIDIA's tensor cores.
    threads = device.vendor == "NVIDIA" or (
        device.warp_size is not None and _ITEM_BYTES.get(rate, 4) < 4
    )
    unaligned = aligned < 16 and unit == "matrix" and threads
    wider = unaligned and aligned > _ITEM_BYTES.get(rate, 4)
    single = unaligned and family == "matmul" and device.vendor == "NVIDIA" and rate in _SINGLE
    single = (earlier and rate == "tf32") or (single and (rate == "tf32" or not wider))
    # Float32 on matrix units: kernels of their own (CDNA), or passes of bfloat16 (TPU).
    wide = rate == "fp32" and "fp32_tensor" in dict(device.peaks)
    passes = rate == "fp32" and unit == "matrix" and not wide
    key = f"{family}.{'fp32_matrix' if wide else 'bf16' if passes else rate}"
    if unaligned:
        key += "_odd" if single or not (wider or family != "matmul") else "_unaligned"
    variant = ("odd" if single or not wider else "unaligned") if unaligned else unit
    sums = ["matmul.slices"] if family == "matmul" and device.vendor == "NVIDIA" else []
    places = [key, *sums, f"gemm.{variant}", "gemm"]
    tiles = _SINGLE[rate] if single else _choice(rate, family, unaligned)
    if not unaligned and has_both(device, rate, family):
        places = [f"{family}.{'mma' if earlier else 'wgmma'}_{rate}", *places]
        tiles = _GENERATIONS[rate][earlier]
    ffma = rate == "fp32" and unit == "vector" and is_hopper(device, family)
    if ffma:
        places, tiles = [f"{family}.ffma_fp32", *places], "ffma"
    tiles = "float" if wide else tiles
    own = device.compute_capability == (9, 0) and tiles in ("any width", "fixed")
    own = own and (family != "matmul" or rate in _PERSISTENT)
    turns = is_hopper(device, family) and unit == "matrix" and not own and rate in _SINGLE
    return GemmKernels(key, tuple(places), tiles, unaligned, wider, single, ffma, own, turns)


def has_both(device: Device, rate: str, family: str) -> bool:
    """Whether the library multiplies aligned rows by kernels of two generations."""
    return rate in ("tf32", "int8") and is_hopper(device, family)


def is_hopper(device: Device, family: str) -> bool:
    """Whether it is a product on a device whose kernels were recorded one by one."""
    return family == "matmul" and device.compute_capability == (9, 0)


def _choice(rate: str, family: str, unaligned: bool) -> Choice:
    """Which of the library's tiles a product can use."""
    if rate == "int8" and family == "matmul" and unaligned:
        return "integer"
    if unaligned:
        return "earlier"
    return "any width" if family == "matmul" and rate in ("bf16", "fp16", "fp8") else "fixed"
