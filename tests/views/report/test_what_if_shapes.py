"""Other shapes: the longest products are found, and padding is advised only where it pays."""

from __future__ import annotations

from both import both
from run_builders import gpt_run

from gpuscope import api
from gpuscope.document.blocks import Axis, Explorer, Lines, Mark, Paragraph, Series, Table
from gpuscope.hardware import device
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.views.report.what_if_shapes import _apart, longest_products, shape_blocks

H200 = device("h200")


def spec(*shape: int, turned: bool = False) -> TensorSpec:
    stride = (1, shape[0]) if turned else (shape[-1], 1)
    return TensorSpec(shape, stride, "bfloat16")


def run_of(*ops: Op):  # type: ignore[no-untyped-def]
    return api.predict(Program("step", ops), "h200")


def test_an_operator_gives_its_sizes_and_layout() -> None:
    mm = Op(
        0,
        "aten::mm",
        inputs=(spec(512, 4096), spec(4096, 1024, turned=True)),
        outputs=(spec(512, 1024),),
    )
    bias = TensorSpec((2048,), (1,), "bfloat16")
    addmm = Op(
        1,
        "aten::addmm",
        inputs=(bias, spec(8192, 4096), spec(4096, 2048)),
        outputs=(spec(8192, 2048),),
    )
    first, second = longest_products(run_of(mm, addmm), H200)
    assert first.sizes == {"M": 8192, "N": 2048, "K": 4096}
    assert (first.asked.layout, second.asked.layout) == ("nn", "nt")
    assert second.sizes == {"M": 512, "N": 1024, "K": 4096}
    assert first.time_s > second.time_s


def test_equal_products_are_looked_at_once() -> None:
    def one(i: int) -> Op:
        return Op(i, "aten::mm", inputs=(spec(512, 512), spec(512, 512)), outputs=(spec(512, 512),))

    assert len(longest_products(run_of(one(0), one(1), one(2)), H200)) == 1


def test_a_good_shape_is_left_alone_and_an_odd_one_is_padded() -> None:
    good = Op(
        0, "aten::mm", inputs=(spec(8192, 8192), spec(8192, 8192)), outputs=(spec(8192, 8192),)
    )
    odd = Op(
        0, "aten::mm", inputs=(spec(8192, 8192), spec(8192, 4095)), outputs=(spec(8192, 4095),)
    )
    (found,) = longest_products(run_of(good), H200)
    said = shape_blocks(found, found.time_s, live=False)[0]
    assert isinstance(said, Paragraph)
    assert said.tone == "plain"
    (found,) = longest_products(run_of(odd), H200)
    said, lines, live, near = shape_blocks(found, found.time_s, live=True)
    assert isinstance(said, Paragraph)
    assert said.tone == "good"
    assert "N = 4096 instead of 4095" in said.text
    assert isinstance(lines, Lines)
    assert isinstance(live, Explorer)
    assert isinstance(near, Table)
    count = 1
    at = 0
    for slider in live.sliders:
        count *= len(slider.values)
        at = at * len(slider.values) + slider.start
    assert len(live.outputs[0].values) == count
    assert live.outputs[0].values[at] == found.asked.price(found.sizes).duration_s


def test_a_step_without_products_has_none() -> None:
    add = Op(0, "aten::add", inputs=(spec(64, 64),), outputs=(spec(64, 64),))
    assert longest_products(run_of(add), H200) == ()


def test_a_product_is_named_as_the_roofline_names_it() -> None:
    mm = Op(0, "aten::mm", inputs=(spec(512, 4096), spec(4096, 1024)), outputs=(spec(512, 1024),))
    run = run_of(mm)
    assert run.analysis.roofline is not None
    (found,) = longest_products(run, H200)
    assert found.name == run.analysis.roofline.points[0].label
    assert found.time_s == run.analysis.roofline.points[0].time_s


def test_operators_written_by_hand_without_their_operands_are_passed_over() -> None:
    assert longest_products(gpt_run(), H200) == ()


def test_names_of_marks_do_not_cover_each_other() -> None:
    words = both("", "")
    marks = (*(Mark(words, x=x) for x in (50.0, 52.0, 90.0)), Mark(words, y=1.0))
    series = (Series(words, (0.0, 100.0), (0.0, 1.0)),)
    lines = Lines(words, Axis(words), Axis(words), series, marks)
    assert [m.x for m in _apart(lines)] == [50.0, 90.0, None]
