"""Blocks that stay and work off many tiles: the same waves wherever they are shown."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, matmul, spec

from gpuscope.analysis import analyze
from gpuscope.analysis.pieces import pieces, waves
from gpuscope.program.types import Op

MM = Op(0, "aten::mm", inputs=(spec(4096, 4096), spec(4096, 4096)))
FLOPS = 2.0 * 4096**3


def test_a_persistent_product_has_the_waves_of_its_tiles() -> None:
    # 32 x 16 tiles for 132 blocks: 3.88 waves, the last of which is 3 % empty over all.
    one = matmul(300, grid=132, waves=1.0, tile=(128, 256, 64), flops=FLOPS)
    assert pieces(one, MM) == 512
    assert waves(one, MM) == pytest.approx(512 / 132)
    b = TimelineBuilder()
    op = b.op("aten::mm", inputs=MM.inputs)
    b.chain([one], op=op)
    (task,) = analyze(b.build()).tasks
    assert task.waves == pytest.approx(3.88, abs=0.01)
    assert task.tail_loss == pytest.approx(0.03, abs=0.001)


def test_a_grid_of_its_tiles_is_taken_as_it_is() -> None:
    one = matmul(300, grid=512, waves=3.88, tile=(128, 256, 64), flops=FLOPS)
    assert (pieces(one, MM), waves(one, MM)) == (512, 3.88)


def test_a_tile_that_may_lie_either_way_says_nothing() -> None:
    wide = Op(0, "aten::mm", inputs=(spec(128, 4096), spec(4096, 8192)))
    one = matmul(300, grid=16, waves=0.12, tile=(128, 256, 64), flops=2.0 * 128 * 4096 * 8192)
    assert pieces(one, wide) == 16
    assert pieces(one, None) == 16
