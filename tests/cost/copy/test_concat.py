from __future__ import annotations

import pytest
from memory_work import dense, one, run, seconds

from gpuscope.program.types import TensorSpec


def _last(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    n, c, h, w = shape
    return TensorSpec((n, c, h, w), (c * h * w, 1, w * c, c), dtype, "device", -1)


def _stacked(count: int, *shape: int) -> float:
    """Seconds of a stack along a new last dimension."""
    parts = tuple(dense(*shape) for _ in range(count))
    return seconds(run("stack", parts, (dense(*shape, count),), dim=-1))


def test_sectors_that_inputs_share_are_read_back_for_each() -> None:
    """18 tensors of 11 million took 12.2 ms along a new last dimension, 6 small ones 135 us."""
    assert _stacked(18, 512, 168, 128) == pytest.approx(12.2e-3, rel=0.25)
    assert _stacked(6, 512, 24, 128) == pytest.approx(135e-6, rel=0.25)
    parts = tuple(dense(512, 168, 128) for _ in range(18))
    along_first = seconds(run("stack", parts, (dense(18, 512, 168, 128),), dim=0))
    assert _stacked(18, 512, 168, 128) > 10 * along_first


def test_channels_last_is_as_dense_as_rows() -> None:
    """[64, 1056, 28, 28] in bfloat16 of six parts: 117 us on an H200."""
    widths = (256, 160, 160, 160, 160, 160)
    parts = tuple(_last(64, c, 28, 28) for c in widths)
    made = one("cat", parts, (_last(64, sum(widths), 28, 28),), dim=1, hot=True)
    assert made.duration_s == pytest.approx(117.2e-6, rel=0.15)
    assert (made.grid, made.block) == (4224 * 6, 128)


def test_an_empty_vector_costs_the_way_of_strided_tensors() -> None:
    """A cache that holds nothing yet: 607 us, 103 without it."""
    held = dense(32, 128, 128, 192, dtype="bfloat16")
    made = one("cat", (dense(0, dtype="bfloat16"), held), (held,), dim=-2)
    assert made.block == 512
    assert made.duration_s == pytest.approx(607e-6, rel=0.15)


def test_what_is_strided_goes_in_launches_of_64() -> None:
    part = TensorSpec((64, 33), (66, 1), "float32", "device", -1)
    assert len(run("cat", (part,) * 100, (dense(6400, 33),), dim=0)) == 2
    whole = dense(64, 33)
    assert len(run("cat", (whole,) * 100, (dense(6400, 33),), dim=0)) == 1


def _view(shape: tuple[int, ...], stride: tuple[int, ...], dtype: str = "bfloat16") -> TensorSpec:
    return TensorSpec(shape, stride, dtype, "device", -1)


def test_one_strided_input_waits_for_its_own_steps() -> None:
    """A cache of 134 million keys and their newest: 806 us, 6 times what its bytes take."""
    held = _view((64, 8, 2048, 128), (2098176, 262272, 128, 1))
    newest = _view((64, 8, 1, 128), (1024, 128, 128, 1))
    made = one("cat", (held, newest), (dense(64, 8, 2049, 128, dtype="bfloat16"),), dim=-2)
    assert made.limiter == "latency"
    assert made.duration_s == pytest.approx(806e-6, rel=0.08)
    fewer = _view((64, 576, 768), (442368, 768, 1), "float32")
    token = _view((64, 1, 768), (0, 768, 1), "float32")
    made = one("cat", (token, fewer), (dense(64, 577, 768),), dim=1)
    assert made.duration_s == pytest.approx(142e-6, rel=0.08)  # 0.68 us a step for 0.81


def test_several_strided_inputs_fill_each_others_waits() -> None:
    """Of 16.8 million values each: one 102 us (float32), two 138 (bfloat16)."""
    one_of = _view((8, 32, 512, 128), (2097152, 128, 4096, 1), "float32")
    empty = dense(0)
    alone = seconds(run("cat", (empty, one_of), (dense(8, 32, 512, 128),), dim=-2))
    half = _view((32, 64, 128, 64), (1048576, 128, 8192, 1))
    out = dense(32, 64, 128, 128, dtype="bfloat16")
    both = seconds(run("cat", (half, half), (out,), dim=-1))
    assert alone == pytest.approx(102e-6, rel=0.08)
    assert both == pytest.approx(138e-6, rel=0.08)


def test_a_lone_thin_input_leaves_the_others_stores_side_by_side() -> None:
    """512 values of each row and one more: 104 us, not three times as long."""
    wide = _view((1, 64, 512, 512), (16777216, 262144, 512, 1))
    thin = _view((1, 64, 512, 1), (64, 1, 0, 1))
    out = dense(1, 64, 512, 513, dtype="bfloat16")
    assert seconds(run("cat", (wide, thin), (out,), dim=-1)) == pytest.approx(104e-6, rel=0.2)
