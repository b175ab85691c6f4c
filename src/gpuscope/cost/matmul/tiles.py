"""Block tiles that matrix libraries choose from, and how a grid of them fills a device.

A library splits C[M, N] into tiles, one thread block each. Small tiles make many blocks (good for
filling a device) but load more bytes per multiply-add; large ones the reverse. The sets below are
those that kernel names show (cuBLAS' "nvjet_..._128x256_64x4_2x1", CUTLASS' "128x128_32x4",
Tensile's "MT128x128x64"); which one is taken is left to the cost model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gpuscope.hardware import Device

Unit = Literal["matrix", "vector"]
Choice = Literal[
    "any width",
    "fixed",
    "earlier",
    "integer",
    "float",
    "single bf16",
    "single fp16",
    "single tf32",
    "mma tf32",
    "ffma",
    "wgmma int8",
]


@dataclass(frozen=True, slots=True)
class Tile:
    """One kernel shape of a library.

    Attributes:
        m, n: rows and columns of C that a block computes.
        k: depth of one main-loop step, in units of 2 bytes.
        threads: threads of a block.
        resident: blocks of this tile that fit on one multiprocessor at once.
        cluster: blocks that share a multicast load of one operand (Hopper and later), 1 if none.
        batched: taken for batches alone.
    """

    m: int
    n: int
    k: int
    threads: int = 256
    resident: int = 1
    cluster: int = 1
    batched: bool = False

    @property
    def name(self) -> str:
        """As kernel names write it, e.g. "128x256"."""
        return f"{self.m}x{self.n}"


def _warpgroup_tiles() -> tuple[Tile, ...]:
    """Every wgmma tile: one side a multiple of 64, the other of 8.

    The accumulators must fit in the registers of two warpgroups (40,960 float32 values, the
    largest that kernel names show: 320x128); narrow sides leave room for long ones (512x64).
    """
    tiles = []
    for long in (64, 128, 192, 256, 320, 512):
        for short in (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256):
            if long * short > 40960 or (long == 512 and short > 64):
                continue
            tiles.append(Tile(short, long, 64, 384, 1, 2))
            tiles.append(Tile(long, short, 64, 384, 1, 2))
    return tuple(dict.fromkeys(tiles))


_HOPPER = _warpgroup_tiles()
"""cuBLAS' "nvjet_sm90" kernels: persistent, two blocks a cluster."""

_HOPPER_FIXED = tuple(
    Tile(m, n, 32, 384, 1, 1)
    for m, n in (
        (64, 64),
        (64, 128),
        (128, 64),
        (128, 128),
        (64, 256),
        (256, 64),
        (128, 256),
        (256, 128),
    )
)
"""cuDNN's and cuBLAS' "sm90_xmma" kernels: convolutions, and products in TF32 and int8."""

_BLACKWELL = (
    Tile(256, 256, 64, 256, 1, 2),
    Tile(256, 192, 64, 256, 1, 2),
    Tile(192, 256, 64, 256, 1, 2),
    *_HOPPER,
)
"""tcgen05 pairs two multiprocessors on one 256-row tile."""

_AMPERE = (
    Tile(256, 128, 32, 256),
    Tile(128, 256, 32, 256),
    Tile(128, 128, 32, 256),
    Tile(256, 64, 32, 256),
    Tile(64, 256, 32, 256),
    Tile(128, 64, 32, 128, 2),
    Tile(64, 128, 32, 128, 2),
    Tile(64, 64, 64, 128, 2),
    Tile(32, 128, 64, 128, 2),
    Tile(64, 32, 64, 128, 2),
    Tile(32, 64, 64, 128, 2),
    Tile(16, 64, 64, 128, 2),
    Tile(16, 128, 64, 128, 2),
    Tile(64, 16, 64, 128, 2),
    Tile(32, 32, 64, 64, 4),
)
"""mma.sync kernels of compute capability 7.x and 8.x."""

_UNALIGNED = tuple(
    Tile(m, n, 32, 256 if m * n > 4096 else 128, resident)
    for m, n, resident in (
        (32, 32, 8),
        (64, 64, 4),
        (64, 128, 2),
        (128, 64, 2),
        (128, 128, 1),
        (128, 256, 1),
        (256, 128, 1),
    )
)
"""CUTLASS kernels that load two or four elements at a time ("align2")."""


def _single(depth: int, *small: Tile) -> tuple[Tile, ...]:
    """The larger tiles of all that load element by element, behind those of one dtype."""
    sides = ((128, 128), (128, 256), (256, 128))
    return (*small, *(Tile(m, n, depth, 256 if m != n else 128) for m, n in sides))


_SINGLE: dict[Choice, tuple[Tile, ...]] = {
    "single bf16": _single(32, Tile(32, 32, 32, 128, 8, batched=True), Tile(64, 64, 32, 128, 4)),
    "single fp16": _single(
        32, Tile(32, 32, 64, 128, 8), Tile(32, 32, 128, 128, 4), Tile(64, 64, 32, 128, 4)
    ),
    "single tf32": _single(
        64,
        Tile(32, 32, 128, 128, 4),
        Tile(64, 64, 64, 128, 2),
        *(Tile(m, n, 64, 128) for m, n in ((64, 128), (128, 64), (64, 256), (256, 64))),
    ),
    "mma tf32": _single(
        64,
        Tile(64, 64, 64, 128, 2),
        *(Tile(m, n, 64, 128) for m, n in ((64, 128), (128, 64), (64, 256), (256, 64))),
    ),
}
"""Kernels that load element by element ("align1"), as names of 650 products recorded on an H200
show them: "cutlass_75_wmma_tensorop_f16_s161616gemm_f16_32x32_128x1", "cutlass_75_tensorop_bf16_
s1688gemm_bf16_64x64", "sm80_xmma_gemm_f32f32_tf32f32_f32_..._tilesize32x32x64". cuBLAS has the
smallest of bfloat16 for batches alone: tiny products take longer in it than in float16. The last
are kernels of compute capability 8.0 for aligned TF32 ("cutlass_80_tensorop_s1688gemm_64x64_16x6"),
which Hopper's own leave many products to.
"""

_INTEGER = tuple(
    Tile(m, n, 64, 256 if m * n > 8192 else 128, resident)
    for m, n, resident in (
        (64, 64, 3),
        (128, 64, 2),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 1),
        (256, 128, 1),
    )
)
"""Kernels for int8 ("i16832gemm_s8_64x64_128x6"), of compute capability 8.0 even on Hopper."""

_WGMMA_INT8 = (Tile(256, 128, 64, 384), Tile(128, 256, 64, 384))
"""Hopper's own kernel for int8 ("sm90_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize256x128x128")."""

_VECTOR = (
    Tile(128, 256, 16, 256),
    Tile(256, 128, 16, 256),
    Tile(128, 128, 16, 256, 2),
    Tile(128, 64, 16, 128, 2),
    Tile(64, 128, 16, 128, 2),
    Tile(64, 64, 16, 64, 4),
    Tile(128, 32, 16, 128, 4),
    Tile(32, 128, 16, 128, 4),
    Tile(32, 32, 16, 64, 8),
)
"""Kernels on the vector lanes (float32 without TF32, float64 without matrix units)."""

_FFMA = tuple(
    Tile(m, n, 16, threads, resident)
    for m, n, threads, resident in (
        (32, 32, 64, 12),
        (32, 64, 64, 8),
        (64, 32, 64, 8),
        (64, 64, 128, 6),
        (32, 128, 64, 6),
        (128, 32, 128, 6),
        (64, 128, 128, 3),
        (128, 64, 128, 3),
        (64, 256, 128, 2),
        (256, 64, 128, 2),
        (128, 128, 128, 2),
        (128, 256, 256, 1),
        (256, 128, 256, 1),
    )
)
"""float32 on the vector lanes of Hopper, as names of 1,100 recorded products show them: "sm80_xmma_
gemm_f32f32_f32f32_f32_..._tilesize64x64x8_stage3_..._ffma", "cutlass_80_simt_sgemm_128x32_8x5"."""

_CDNA = (
    Tile(256, 256, 64),
    Tile(256, 192, 64),
    Tile(192, 256, 64),
    Tile(256, 128, 64),
    Tile(128, 256, 64),
    Tile(128, 128, 64),
    Tile(128, 64, 64),
    Tile(64, 128, 64),
    Tile(64, 64, 64, 256, 2),
    Tile(32, 64, 64, 256, 2),
    Tile(64, 32, 64, 256, 2),
    Tile(16, 64, 128, 256, 2),
    Tile(64, 16, 128, 256, 2),
    Tile(16, 16, 128, 256, 2),
)
"""Tensile's macro tiles for MFMA (names "MT256x256x64")."""

_CDNA_FLOAT = tuple(
    Tile(m, n, 32, threads, min(4, 65536 // (64 * (m + n))))
    for m, n, threads in (
        (128, 128, 256),
        (128, 64, 256),
        (64, 128, 256),
        (96, 96, 256),
        (64, 64, 256),
        (64, 32, 256),
        (32, 64, 256),
        (32, 32, 256),
        (64, 16, 256),
        (16, 64, 256),
        (16, 16, 64),
    )
)
"""rocBLAS' kernels for float32 on the matrix units of CDNA2 ("MT64x32x32_MI16x16x4x1"): at most
128 x 128, since operands and sums take twice the room. Resident as their operands fit in the 64 KiB
of a compute unit's local memory."""

_SIMDGROUP = (Tile(64, 64, 16, 128, 2), Tile(32, 64, 16, 128, 2), Tile(32, 32, 16, 128, 4))
"""Kernels on 8x8 simdgroup matrices (Apple) and other small vector machines."""

SYSTOLIC_SIDE = 128
"""Rows and columns of a systolic array where nobody states them."""


def _systolic(side: int) -> tuple[Tile, ...]:
    """A systolic array holds a square of one operand; rows of the other stream by in eights."""
    return Tile(side, side, side, 1), Tile(8, side, side, 1)


@lru_cache(maxsize=128)
def tiles_for(device: Device, unit: Unit, choice: Choice = "any width") -> tuple[Tile, ...]:
    """The tiles that the device's library has on its matrix unit or its vector lanes.

    `choice` matters on Hopper and later: cuBLAS has tiles of any width for aligned products in
    bfloat16, float16 and 8-bit floats; convolutions and other dtypes have few ("fixed"), and
    operands whose rows are not 16-byte aligned fall back to kernels of earlier generations.
    """
    if device.warp_size is None:
        return _systolic(device.matrix_array_side or SYSTOLIC_SIDE)
    if device.vendor == "Apple":
        return _SIMDGROUP
    if unit == "vector":
        return _FFMA if choice == "ffma" else _VECTOR
    if device.vendor == "AMD":
        return _CDNA_FLOAT if choice == "float" else _CDNA
    capability = device.compute_capability
    major = capability[0] if capability is not None else 0
    if choice == "wgmma int8":
        return _WGMMA_INT8
    if major in (9, 10) and choice == "fixed":
        return _HOPPER_FIXED
    if choice == "integer" and major >= 8:
        return _INTEGER
    if choice in ("earlier", "integer"):
        return _UNALIGNED
    if choice in _SINGLE:
        return _SINGLE[choice]
    if major == 9:
        return _HOPPER
    if major == 10:
        return _BLACKWELL
    return _AMPERE
