"""What runs while power is measured: one call to repeat, with its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

SIDE = 8192
FLOPS = 2.0 * SIDE**3


@dataclass(frozen=True, slots=True)
class Load:
    """A call to repeat.

    Attributes:
        call: launches the work; its results overwrite each other.
        flops, bytes: of one call; None where the other one is what counts.
        dtype: rate name of the peak that bounds it; "" if none does.
    """

    call: Callable[[], object]
    flops: float | None = None
    bytes: float | None = None
    dtype: str = ""


def _square(dtype: torch.dtype, device: str, side: int = SIDE) -> torch.Tensor:
    return torch.randn(side, side, dtype=dtype, device=device)


def _product(dtype: torch.dtype, name: str, side: int = SIDE) -> Callable[[str], Load]:
    def make(device: str) -> Load:
        a, b = _square(dtype, device, side), _square(dtype, device, side)
        out = torch.empty_like(a)

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
            return torch.mm(a, b, out=out)

        return Load(call, flops=2.0 * side**3, dtype=name)

    return make


def _zeros(device: str) -> Load:
    """Power depends on the bits: zeros draw far less."""
    a = torch.zeros(SIDE, SIDE, dtype=torch.bfloat16, device=device)
    out = torch.empty_like(a)
    return Load(lambda: torch.mm(a, a, out=out), flops=FLOPS, dtype="bf16")


def _signs(device: str) -> Load:
    """Ones and minus ones: one bit of each number differs."""
    a = _square(torch.bfloat16, device).sign()
    out = torch.empty_like(a)
    return Load(lambda: torch.mm(a, a, out=out), flops=FLOPS, dtype="bf16")


def _fp8(device: str) -> Load:
    a, b = (_square(torch.bfloat16, device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    return Load(
        lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16),
        flops=FLOPS,
        dtype="fp8",
    )


def _copy(device: str) -> Load:
    a = torch.randn(1 << 29, device=device)
    b = torch.empty_like(a)
    return Load(lambda: b.copy_(a), bytes=2.0 * a.nbytes)


def _read(device: str) -> Load:
    a = torch.randn(1 << 29, device=device)
    return Load(lambda: a.sum(), bytes=float(a.nbytes))


def _write(device: str) -> Load:
    a = torch.randn(1 << 29, device=device)
    return Load(lambda: a.fill_(1.0), bytes=float(a.nbytes))


def _thin(device: str) -> Load:
    """A decode step's product: the weights stream through."""
    x = torch.randn(16, SIDE, dtype=torch.bfloat16, device=device)
    w = _square(torch.bfloat16, device)
    return Load(lambda: torch.mm(x, w), bytes=float(w.nbytes))


def _attention(device: str) -> Load:
    q = torch.randn(4, 32, 4096, 128, device=device, dtype=torch.bfloat16)
    return Load(
        lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True),
        flops=2.0 * 4 * 32 * 4096 * 4096 * 128,
        dtype="bf16",
    )


def _convolution(device: str) -> Load:
    last = torch.channels_last
    x = torch.randn(32, 256, 64, 64, device=device, dtype=torch.bfloat16)
    w = torch.randn(256, 256, 3, 3, device=device, dtype=torch.bfloat16)
    x, w = x.contiguous(memory_format=last), w.contiguous(memory_format=last)
    return Load(
        lambda: functional.conv2d(x, w, padding=1),
        flops=2.0 * 32 * 256 * 256 * 9 * 64 * 64,
        dtype="bf16",
    )


def _norm(device: str) -> Load:
    x = _square(torch.bfloat16, device)
    return Load(lambda: functional.layer_norm(x, (SIDE,)), bytes=2.0 * x.nbytes)


def _cached(device: str) -> Load:
    a, b = (torch.randn(1 << 21, device=device) for _ in range(2))
    return Load(lambda: b.copy_(a), bytes=2.0 * a.nbytes)


def _cached_gelu(device: str) -> Load:
    x = torch.randn(1 << 20, device=device)
    return Load(lambda: functional.gelu(x), bytes=2.0 * x.nbytes)


def _tiny(device: str) -> Load:
    x = torch.randn(16, SIDE, dtype=torch.bfloat16, device=device)
    return Load(lambda: x.add_(1.0))


LOADS: Mapping[str, Callable[[str], Load]] = {
    "matmul_bf16": _product(torch.bfloat16, "bf16"),
    "copy_hbm": _copy,
    "matmul_bf16_zeros": _zeros,
    "matmul_fp32": _product(torch.float32, "fp32"),
    "matmul_tf32": _product(torch.float32, "tf32"),
    "matmul_fp8": _fp8,
    "read_hbm": _read,
    "write_hbm": _write,
    "matmul_thin_bf16": _thin,
    "sdpa_causal_bf16": _attention,
    "conv3x3_bf16_nhwc": _convolution,
    "matmul_bf16_2048": _product(torch.bfloat16, "bf16", 2048),
    "layer_norm_bf16": _norm,
    "copy_l2_16mib": _cached,
    "tiny_kernels": _tiny,
    "matmul_fp16": _product(torch.float16, "fp16"),
    "matmul_bf16_signs": _signs,
    "gelu_l2": _cached_gelu,
}
"""By name; the most telling first."""

QUICK_LOADS = ("matmul_bf16", "copy_hbm")
