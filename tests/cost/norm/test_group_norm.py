from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.program.types import TensorSpec


def test_group_norm_makes_channels_last_input_contiguous_first() -> None:
    last = TensorSpec((4, 64, 32, 32), (65536, 1, 2048, 64), "float32")
    w, stat = dense(64), dense(4, 32)
    kernels = run("native_group_norm", (last, w, w), (dense(4, 64, 32, 32), stat, stat), group=32)
    assert kernels[0].kind == "copy"
    dense_in = dense(4, 64, 32, 32)
    assert len(run("native_group_norm", (dense_in, w, w), (dense_in, stat, stat), group=32)) == 3


def test_rows_without_pixels_have_kernels_of_their_own() -> None:
    """8,192 rows of 2,048 values in 4 groups took 253 us, their gradients 132, 68 and 178 us."""
    x, y, grad = (dense(8192, 2048, at=at) for at in range(3))
    w, stat = dense(2048, at=3), dense(8192, 4, at=4)
    forward = run("native_group_norm", (x, w, w), (y, stat, stat), group=4)
    backward = run("native_group_norm_backward", (grad, x, stat, stat, w), (y, w, w), group=4)
    assert [k.name for k in forward] == ["group_norm_moments", "group_norm_apply"]
    assert sum(k.duration_s for k in forward) == pytest.approx(253e-6, rel=0.15)
    assert [k.name for k in backward] == [
        "group_norm_sums",
        "group_norm_grad_input",
        "group_norm_grad_weight",
    ]
    took = [k.duration_s * 1e6 for k in backward]
    assert took == pytest.approx([132, 68, 178], rel=0.3)


def test_many_rows_share_the_gradient_of_the_weight() -> None:
    """A thread walks up to 128 rows of a channel alone; 16 share more, so that twice the rows cost
    less, until there are many."""

    def weight_s(rows: int) -> float:
        x, stat = dense(rows, 64, 16, 16), dense(rows, 32)
        made = run("native_group_norm_backward", (x, x, stat, stat, dense(64)), (x,), group=32)
        return made[-1].duration_s

    assert weight_s(256) < weight_s(128)
    assert weight_s(8192) > 4 * weight_s(1024)
