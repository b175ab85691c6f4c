from __future__ import annotations

import pytest
from memory_work import dense, run, seconds


def test_an_update_moves_16_bytes_a_float32_parameter() -> None:
    """4 + 4 + 1 + 1 read, 4 + 1 + 1 written, and two float32 scales for 256 elements either way."""
    n = 256 * 10**5
    moments = [dense(n, dtype="uint8", at=at) for at in (2, 3)]
    scales = [dense(n // 256, at=at) for at in (4, 5)]
    made = run("gpuscope::adamw_8bit", (dense(n, at=0), dense(n, at=1), *moments, *scales))
    moved = sum(kernel.read_bytes + kernel.written_bytes for kernel in made)
    assert moved == pytest.approx((16 + 4 * 4 / 256) * n)
    full = run("_fused_adamw_", (*(dense(n, at=at) for at in range(4)), dense(at=9)))
    assert 0.4 * seconds(full) < seconds(made) < seconds(full)
