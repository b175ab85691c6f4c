"""How kernels are split over the machine."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, kernel, matmul
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis import analyze
from gpuscope.analysis.tasks import tail_loss


@pytest.mark.parametrize(
    ("waves", "loss"), [(0.0, 0.0), (0.25, 0.75), (1.0, 0.0), (1.1, 0.45), (2.0, 0.0), (2.5, 1 / 6)]
)
def test_tail_loss_by_hand(waves: float, loss: float) -> None:
    assert tail_loss(waves) == pytest.approx(loss)


@given(st.floats(0.001, 1e4))
def test_tail_loss_is_a_share_that_fades(waves: float) -> None:
    assert 0 <= tail_loss(waves) < 1
    assert tail_loss(waves) <= 1 / max(waves, 1)


def test_tasks_hold_the_launch_geometry() -> None:
    b = TimelineBuilder()
    op = b.op("aten::bmm")
    shape = {"grid": 198, "block": 384, "tile": (128, 256, 64), "waves": 1.5, "occupancy": 0.19}
    b.chain([matmul(80, **shape), matmul(80, **shape)], op=op)
    b.work(900, 950, kind="memcpy", cost=kernel(50, kind="transfer", lane="copy_h2d"), op=op)
    (task,) = analyze(b.build()).tasks
    assert (task.count, task.grid, task.block, task.tile) == (2, 198, 384, (128, 256, 64))
    assert task.tail_loss == pytest.approx(0.25)
    assert task.occupancy == 0.19
    assert task.time_s == pytest.approx(160e-6)
    assert task.label == "bmm bf16"
    assert task.kernel == "gemm_bf16"
