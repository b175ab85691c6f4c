"""Points on the roofline."""

from __future__ import annotations

import pytest
from builders import BANDWIDTH, H200, PEAK_BF16, TimelineBuilder, kernel, matmul, spec, streaming

from gpuscope.analysis import analyze
from gpuscope.analysis.roofs import Roofs


def test_equal_kernels_make_one_point() -> None:
    b = TimelineBuilder()
    op = b.op("aten::mm", inputs=(spec(64, 128), spec(128, 256)))
    end = b.chain([matmul(100, 0.5, read_bytes=1e6), matmul(100, 0.5, read_bytes=1e6)], op=op)
    b.work(end, end + 30, cost=streaming(30, flops=1e6), op=op)
    roofline = analyze(b.build(), on=H200).roofline
    assert roofline is not None
    first, second = roofline.points
    assert first.label == "mm 64x128, 128x256 bf16"
    assert first.kernel == "gemm_bf16"
    assert first.count == 2
    assert first.time_s == pytest.approx(200e-6)
    assert first.flops_per_s == pytest.approx(0.5 * PEAK_BF16)
    assert first.intensity_flops_per_byte == pytest.approx(0.5 * PEAK_BF16 * 100e-6 / 1e6)
    assert first.roof_flops_per_s == pytest.approx(PEAK_BF16)
    assert second.roof_flops_per_s == pytest.approx(second.intensity_flops_per_byte * BANDWIDTH)
    assert second.kind == "pointwise"
    assert roofline.peak_flops_per_s["bfloat16"] == pytest.approx(PEAK_BF16)


def test_other_shapes_are_other_points() -> None:
    b = TimelineBuilder()
    b.chain([matmul(100), matmul(50), matmul(50, grid=7)])
    roofline = analyze(b.build(), on=H200).roofline
    assert roofline is not None
    assert [point.time_s for point in roofline.points] == pytest.approx([1e-4, 5e-5, 5e-5])


def test_overlapped_time_counts_once_but_the_rate_is_the_kernels_own() -> None:
    b = TimelineBuilder()
    b.work(0, 100, cost=matmul(100))
    b.work(50, 150, cost=matmul(100), stream="stream 20")
    roofline = analyze(b.build(), on=H200).roofline
    assert roofline is not None
    assert roofline.points[0].time_s == pytest.approx(150e-6)
    assert roofline.points[0].flops_per_s == pytest.approx(0.7 * PEAK_BF16)


def test_kernels_without_arithmetic_have_no_point() -> None:
    b = TimelineBuilder()
    b.chain([streaming(100)])
    roofline = analyze(b.build(), on=H200).roofline
    assert roofline is not None
    assert roofline.points == ()


def test_what_has_no_point_stands_beside_it_and_nothing_is_left_out() -> None:
    """Pointwise kernels and copies took 54 % of a GPT-2 step, and the roofline said nothing."""
    b = TimelineBuilder()
    b.chain([matmul(100), streaming(60), streaming(40), kernel(30, kind="copy"), matmul(20)])
    analysis = analyze(b.build(), on=H200)
    roofline = analysis.roofline
    assert roofline is not None
    pointwise, copy = roofline.beside
    assert (pointwise.kind, pointwise.count) == ("pointwise", 2)
    assert pointwise.time_s == pytest.approx(100e-6)
    assert pointwise.bytes_per_s == pytest.approx(pointwise.moved_bytes / 100e-6)
    assert pointwise.memory_share == pytest.approx(pointwise.bytes_per_s / BANDWIDTH)
    assert copy.kind == "copy"
    assert copy.bytes_per_s is None  # nothing is known of its bytes: not available, not 0
    placed = sum(p.time_s for p in roofline.points) + sum(p.time_s for p in roofline.beside)
    assert placed == pytest.approx(sum(row.time_s for row in analysis.kinds))


def test_no_device_no_roofline() -> None:
    b = TimelineBuilder()
    b.chain([matmul(100)])
    assert analyze(b.build()).roofline is None


def test_vector_kernels_are_held_against_the_vector_lanes() -> None:
    roofs = Roofs(H200)
    matrix, vector = roofs.peak_flops_per_s("bfloat16"), roofs.peak_flops_per_s("bfloat16", "fused")
    assert matrix is not None
    assert vector is not None
    assert vector < matrix / 4
    assert roofs.peak_flops_per_s("float32", "reduction") == H200.peak_flops_per_s("float32")


def test_an_unknown_dtype_has_no_peak() -> None:
    assert Roofs(H200).peak_flops_per_s("complex64") is None
    assert Roofs(None).peak_flops_per_s("bfloat16") is None


def test_the_greater_of_arithmetic_and_traffic_is_the_best_time() -> None:
    b = TimelineBuilder()
    b.chain(
        [
            kernel(
                100,
                kind="matmul",
                dtype="bfloat16",
                flops=PEAK_BF16 * 10e-6,
                least_bytes=BANDWIDTH * 20e-6,
            )
        ]
    )
    assert analyze(b.build(), on=H200).kinds[0].best_s == pytest.approx(20e-6)
