"""Matrix kernels below the roofline: when it speaks, and when another finding does."""

from __future__ import annotations

from builders import TimelineBuilder, find, matmul, spec, streaming

from gpuscope.analysis.types import Finding


def _found(b: TimelineBuilder) -> Finding | None:
    return find(b, "below_roofline")


def _with_products(limiter: str, *shapes: tuple[int, ...]) -> TimelineBuilder:
    b = TimelineBuilder()
    op = b.op("aten::mm", inputs=tuple(spec(*shape) for shape in shapes))
    b.chain([matmul(100, of_peak=0.2, limiter=limiter)] * 4, op=op)
    for at in range(4):
        b.work(400 + at * 100, 500 + at * 100, cost=streaming(100), launch_us=-500)
    return b


def test_products_far_below_the_roofline_are_told_with_their_loss() -> None:
    found = _found(_with_products("latency", (4096, 768), (768, 768)))
    assert found is not None
    assert len(found.about.events) == 4
    assert found.about.explains_s == found.max_gain_s
    assert "larger ones" in found.hint


def test_thin_products_get_their_own_advice() -> None:
    found = _found(_with_products("latency", (1, 2048), (2048, 8192)))
    assert found is not None
    assert "only read weights" in found.hint


def test_what_arithmetic_is_told_of_is_not_told_again() -> None:
    assert _found(_with_products("tensor_core", (4096, 768), (768, 768))) is None


def test_images_that_are_not_channels_last_are_told_so() -> None:
    b = TimelineBuilder()
    op = b.op("aten::convolution", inputs=(spec(8, 64, 56, 56), spec(64, 64, 3, 3)))
    b.chain([matmul(100, of_peak=0.2, kind="convolution", limiter="latency")] * 4, op=op)
    found = _found(b)
    assert found is not None
    assert "channels_last" in found.hint
