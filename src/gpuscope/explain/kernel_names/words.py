"""Words that names of several libraries share: dtypes, layouts, architectures, instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuscope.explain.kernel_names.types import same
from gpuscope.explain.types import Words

DTYPES: Mapping[str, tuple[str, int]] = {
    "bf16": ("bf16", 16),
    "__nv_bfloat16": ("bf16", 16),
    "c10::BFloat16": ("bf16", 16),
    "bfloat16_t": ("bf16", 16),
    "__hip_bfloat16": ("bf16", 16),
    "bfloat16": ("bf16", 16),
    "f16": ("fp16", 16),
    "fp16": ("fp16", 16),
    "half": ("fp16", 16),
    "__half": ("fp16", 16),
    "c10::Half": ("fp16", 16),
    "half_t": ("fp16", 16),
    "float16": ("fp16", 16),
    "tf32": ("tf32", 32),
    "tfloat32_t": ("tf32", 32),
    "f32": ("fp32", 32),
    "float": ("fp32", 32),
    "fp32": ("fp32", 32),
    "f64": ("fp64", 64),
    "double": ("fp64", 64),
    "fp64": ("fp64", 64),
    "s8": ("int8", 8),
    "i8": ("int8", 8),
    "int8": ("int8", 8),
    "int8_t": ("int8", 8),
    "signed char": ("int8", 8),
    "u8": ("uint8", 8),
    "uint8_t": ("uint8", 8),
    "unsigned char": ("uint8", 8),
    "s4": ("int4", 4),
    "e4m3": ("fp8 e4m3", 8),
    "e5m2": ("fp8 e5m2", 8),
    "f8": ("fp8", 8),
    "float_e4m3_t": ("fp8 e4m3", 8),
    "float_e5m2_t": ("fp8 e5m2", 8),
    "c10::Float8_e4m3fn": ("fp8 e4m3", 8),
    "c10::Float8_e5m2": ("fp8 e5m2", 8),
    "__nv_fp8_e4m3": ("fp8 e4m3", 8),
    "cf32": ("complex fp32", 64),
    "s32": ("int32", 32),
    "int": ("int32", 32),
    "int32_t": ("int32", 32),
    "u32": ("uint32", 32),
    "unsigned int": ("uint32", 32),
    "long": ("int64", 64),
    "int64_t": ("int64", 64),
    "u64": ("uint64", 64),
    "long long": ("int64", 64),
    "unsigned long": ("uint64", 64),
    "i64": ("int64", 64),
    "unsigned long long": ("uint64", 64),
    "short": ("int16", 16),
    "bool": ("bool", 8),
    "c10::complex<float>": ("complex fp32", 64),
    "c10::complex<double>": ("complex fp64", 128),
    "mxfp4": ("mxfp4", 4),
    "float2": ("2 × fp32", 64),
}
"""How libraries write a dtype -> its usual name and its bits."""

_OPAQUE = re.compile(r"(?:at::native::)?(?:at::cuda::cub::detail::)?OpaqueType<(\d+)u?>")


def dtype(text: str) -> str:
    """Return a dtype's usual name; "" if it is none."""
    cleaned = text.removesuffix(" const").removesuffix("*").removeprefix("cutlass::").strip()
    opaque = _OPAQUE.fullmatch(cleaned)
    if opaque:
        return f"{opaque[1]} bytes, any type"
    return DTYPES.get(cleaned, ("", 0))[0]


def bits(text: str) -> int | None:
    """Return the bits of a dtype; None if it is none."""
    return DTYPES.get(text.removeprefix("cutlass::").strip(), ("", None))[1]


_NAMES = {
    50: "Maxwell",
    52: "Maxwell",
    60: "Pascal",
    61: "Pascal",
    70: "Volta",
    75: "Turing",
    80: "Ampere",
    86: "Ampere",
    89: "Ada",
    90: "Hopper",
    100: "Blackwell",
    103: "Blackwell",
    120: "Blackwell",
}


def architecture(sm: int) -> Words:
    """Return "Hopper (compute capability 9.0)" for 90."""
    capability = f"{sm // 10}.{sm % 10}"
    name = _NAMES.get(sm)
    if name is None:
        return Words(f"compute capability {capability}", f"计算能力 {capability}")
    return Words(f"{name} (compute capability {capability})", f"{name}（计算能力 {capability}）")


_TRANSPOSED = {"n": ("as stored", "按原样"), "t": ("transposed", "转置")}


def transposes(letters: str) -> Words:
    """Return what "tn" says: A transposed, B as stored, in BLAS's column-major view."""
    a, b = (_TRANSPOSED[letter] for letter in letters.lower()[:2])
    en, zh = f"A {a[0]}, B {b[0]}", f"A {a[1]}，B {b[1]}"
    if len(letters) > 2:
        c = _TRANSPOSED[letters[2].lower()]
        en, zh = f"{en}, result {c[0]}", f"{zh}，结果{c[1]}"
    return Words(f"{en} (column-major view)", f"{zh}（列主序视角）")


ACCUMULATORS: Mapping[str, str] = {
    "s": "fp32",
    "d": "fp64",
    "h": "fp16",
    "i": "int32",
    "c": "complex fp32",
    "z": "complex fp64",
}
"""BLAS letters, as CUTLASS and cuBLAS use them for what is added up in."""

INSTRUCTIONS: Mapping[str, str] = {
    "884": "8×8×4",
    "1688": "16×8×8",
    "16816": "16×8×16",
    "16832": "16×8×32",
    "16864": "16×8×64",
    "161616": "16×16×16",
    "8816": "8×8×16",
    "8832": "8×8×32",
    "1684": "16×8×4",
    "323216": "32×32×16",
    "32816": "32×8×16",
}
"""Shapes M×N×K of matrix instructions as names write them, without separators."""


def times(text: str) -> Words:
    """Return "128 × 64" for "128x64"."""
    return same(" × ".join(text.split("x")))


def tile(text: str) -> Words:
    """Return what a block's tile is."""
    shown = " × ".join(text.split("x"))
    return Words(f"{shown} of the result for each block", f"每个线程块负责结果的 {shown}")


def depth(k: str, stages: str) -> Words:
    """Return "64 along K a pass, 4 stages in flight"."""
    return Words(
        f"{k} along K a pass, {stages} stages in flight", f"每次沿 K 处理 {k}，{stages} 级流水"
    )
