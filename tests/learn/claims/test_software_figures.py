"""Number formats and the installed PyTorch as sources."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpuscope.learn.claims.software_figures import (
    block_load_spread,
    dtype_bytes,
    in_torch,
    kept_after_free,
    mantissa_bits,
    product_columns,
    rounding_error,
)


def test_number_formats() -> None:
    assert [dtype_bytes(name).value for name in ("float32", "bfloat16", "int4")] == [4, 2, 0.5]
    assert (mantissa_bits("float16").value, mantissa_bits("float32").value) == (10, 23)
    assert product_columns(1, 128, 128, 64).value == 64


def test_what_pytorch_has() -> None:
    assert in_torch("cuda/memory.py").value == 1
    assert in_torch("cuda/memory.py", "def memory_summary").value == 1
    assert in_torch("cuda/memory.py", "no such text anywhere").value == 0
    assert in_torch("cuda/memory_profiler.py").value == 0


def test_looking_it_up_does_not_import_it() -> None:
    code = (
        "import sys; from gpuscope.learn.claims.software_figures import in_torch;"
        "in_torch('cuda/memory.py'); print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_the_allocator_keeps_what_was_freed() -> None:
    assert kept_after_free(100 * 2**20).value == 100 * 2**20
    assert kept_after_free(1000).value == 2 * 2**20  # a small request's segment


def test_rounding_small_steps() -> None:
    assert rounding_error(stochastic=False).value == pytest.approx(0.5)  # stays at 1 of 2
    assert rounding_error(stochastic=True).value < 0.01


def test_load_of_blocks() -> None:
    assert block_load_spread(causal=False).value == 1
    # 16 x 16 blocks of 64: 120 full, 16 with 36 of 64; the mean is (120 * 64 + 16 * 36) / 256.
    assert block_load_spread(causal=True).value == pytest.approx(64 * 256 / (120 * 64 + 16 * 36))
