"""What the fast path of plain encoders launches; microseconds are an H200's."""

from __future__ import annotations

import pytest
from memory_work import dense, one, run

PLACES = 8 * 256


@pytest.mark.parametrize(("dtype", "measured_us"), [("bfloat16", 4.3), ("float32", 6.0)])
def test_heads_are_set_apart_by_a_block_a_place(dtype: str, measured_us: float) -> None:
    qkv, bias = dense(8, 256, 1536, dtype=dtype, at=0), dense(1536, dtype=dtype, at=1)
    parts = tuple(dense(8, 8, 256, 64, dtype=dtype, at=2) for _ in range(3))
    made = one("_transform_bias_rescale_qkv", (qkv, bias), parts, hot=(True, False))
    assert (made.grid, made.block) == (PLACES, 128)
    assert made.duration_s == pytest.approx(measured_us * 1e-6, rel=0.2)


def test_padding_goes_element_by_element() -> None:
    padded, rows = dense(8, 256, 512, dtype="float16", at=0), dense(1, 1539, 512, dtype="float16")
    away = one("gpuscope::without_padding", (padded,), (rows,), hot=True)
    back = one("gpuscope::with_padding", (rows,), (padded,), hot=True)
    assert away.grid == back.grid == 8 * 16
    assert away.duration_s == pytest.approx(9.5e-6, rel=0.2)
    assert back.duration_s == pytest.approx(10.8e-6, rel=0.2)
    short = dense(8, 32, 64, dtype="float16", at=0)
    few = one("gpuscope::without_padding", (short,), (dense(1, 97, 64, dtype="float16"),), hot=True)
    assert few.duration_s < away.duration_s / 4  # 1 element a thread, not 32


def test_a_mask_costs_a_softmax_half_as_much_again() -> None:
    scores, out = (dense(8, 8, 256, 256, dtype="bfloat16", at=at) for at in (0, 1))
    plain = one("_softmax", (scores,), (out,), hot=True, dim=-1)
    masked = one("_masked_softmax", (scores, dense(8, 256, dtype="bool")), (out,), hot=True, dim=-1)
    assert masked.duration_s == pytest.approx(12.9e-6, rel=0.1)
    assert 1.4 < masked.duration_s / plain.duration_s < 1.8


def test_float32_applies_a_gelu_after_the_product() -> None:
    def kernels(dtype: str, rows: int, gelu: bool) -> list[str]:
        a, b = dense(rows, 512, dtype=dtype, at=0), dense(512, 2048, dtype=dtype, at=1)
        bias, out = dense(2048, dtype=dtype, at=2), dense(rows, 2048, dtype=dtype, at=3)
        made = run("_addmm_activation", (bias, a, b), (out,), use_gelu=gelu)
        return [kernel.name for kernel in made]

    assert kernels("float32", 2048, True)[-1] == "epilogue_gelu"
    assert "epilogue_gelu" not in kernels("float32", 2048, False)
    assert "epilogue_gelu" not in kernels("bfloat16", 2048, True)
