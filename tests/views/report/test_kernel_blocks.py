"""Products of a run explained by their planner: as launched, only where it agrees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_builders import spec

from gpuscope.document.blocks import Bars, Block, Facts, HeatMap, Paragraph, Table
from gpuscope.explanation.operators import kernels_of, target, total_s, work_on
from gpuscope.program.types import Op
from gpuscope.views.report.kernel_blocks import agrees, operator_blocks

ON = target("h200")
A, B, OUT = spec(4096, 2048), spec(2048, 8192), spec(4096, 8192)
MM = Op(0, "aten::mm", inputs=(A, B), outputs=(OUT,))
KERNEL = max(kernels_of(work_on(MM, ON)), key=lambda kernel: kernel.duration_s)


def _grid(blocks: tuple[Block, ...]) -> dict[str, object]:
    return {f.label: f.value for b in blocks if isinstance(b, Facts) for f in b.rows}


def test_the_parts_add_up_to_the_kernel() -> None:
    blocks = operator_blocks(MM, KERNEL, ON)
    bars = next(b for b in blocks if isinstance(b, Bars))
    total = sum(part.value for bar in bars.bars for part in bar.parts)
    assert total == pytest.approx(total_s(kernels_of(work_on(MM, ON))), rel=1e-3)
    assert _grid(blocks)["tiles"] == KERNEL.grid
    assert [type(b) for b in blocks].count(Table) == 3


def test_linear_and_a_bias_are_the_same_product() -> None:
    weight = spec(8192, 2048)
    linear = Op(0, "aten::linear", inputs=(A, weight), outputs=(OUT,))
    addmm = Op(0, "aten::addmm", inputs=(spec(8192), A, B), outputs=(OUT,))
    for op in (linear, addmm):
        kernel = max(kernels_of(work_on(op, ON)), key=lambda k: k.duration_s)
        assert _grid(operator_blocks(op, kernel, ON))["waves"] == pytest.approx(kernel.waves)


def test_the_tile_that_was_launched_is_explained() -> None:
    plain = _grid(operator_blocks(MM, KERNEL, ON))
    other = replace(KERNEL, tile=(128, 128, 64), duration_s=KERNEL.duration_s * 1.2)
    found = _grid(operator_blocks(MM, other, ON))
    assert str(found["tile of a block"]).startswith("128 x 128")
    assert found["tiles"] == 32 * 64
    assert plain["tiles"] != found["tiles"]
    told = [b.text for b in operator_blocks(MM, other, ON) if isinstance(b, Paragraph)]
    assert any("launched tiles of 128 x 128" in text for text in told)


def test_what_does_not_agree_or_is_no_product_says_nothing() -> None:
    assert operator_blocks(MM, replace(KERNEL, duration_s=KERNEL.duration_s * 5), ON) == ()
    assert operator_blocks(MM, replace(KERNEL, kind="pointwise"), ON) == ()
    assert operator_blocks(replace(MM, name="aten::outer"), KERNEL, ON) == ()
    empty = Op(0, "aten::mm", inputs=(spec(0, 8), spec(8, 8)), outputs=(spec(0, 8),))
    assert operator_blocks(empty, KERNEL, ON) == ()


def test_options_that_are_not_known_are_not_guessed() -> None:
    q = spec(4, 8, 1024, 64)
    sums = spec(4, 8, 1024, dtype="float32")
    args = {"causal": True, "backend": "flash", "mask": None, "dropout_p": 0.0, "scale": None}
    op = Op(0, "gpuscope::attention", inputs=(q, q, q), outputs=(q, sums), args=args)
    kernel = max(kernels_of(work_on(op, ON)), key=lambda k: k.duration_s)
    drawn = operator_blocks(op, kernel, ON)[0]
    assert isinstance(drawn, HeatMap)
    assert any(value == 2.0 for row in drawn.values for value in row)  # above the diagonal
    assert operator_blocks(replace(op, args={}), kernel, ON) == ()


def test_times_agree_up_to_a_ratio() -> None:
    assert agrees(KERNEL.duration_s * 1.4, KERNEL)
    assert agrees(KERNEL.duration_s / 1.4, KERNEL)
    assert not agrees(KERNEL.duration_s * 1.6, KERNEL)
    assert not agrees(0.0, KERNEL)
