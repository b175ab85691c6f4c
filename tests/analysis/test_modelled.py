"""Recorded kernels joined with the cost models, by hand and on recorded traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import H200, spec
from recorded_calls import TRACES, Recording, Shape

from gpuscope.analysis import analyze
from gpuscope.analysis.device_of import device_of
from gpuscope.analysis.modelled import modelled
from gpuscope.cost.types import Kernel
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import Timeline

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<float>>"


def kernels_of(timeline: Timeline) -> list[Kernel]:
    assert timeline.recorded is not None
    column = timeline.events.kernel[timeline.recorded.event]
    assert (column >= 0).all()
    found = [timeline.kernels[i] for i in column.tolist()]
    assert all(isinstance(k, Kernel) for k in found)
    return found  # type: ignore[return-value]


def product(recording: Recording, m: int, n: int, k: int) -> int:
    return recording.op("aten::mm", spec(m, k), spec(k, n), values=("", "", "x"))


def test_work_comes_from_shapes() -> None:
    recording = Recording()
    op = product(recording, 4096, 2048, 1024)
    for _ in range(3):
        recording.call(op, (GEMM, 30.0, Shape(grid=132, block=384, registers=168)))
    found = kernels_of(modelled(recording.build(), H200))
    assert [k.flops for k in found] == [2.0 * 4096 * 2048 * 1024] * 3
    assert found[0].kind == "matmul"
    assert found[0].dtype == "bfloat16"
    assert found[0].grid == 132
    least = 2 * (4096 * 1024 + 1024 * 2048 + 4096 * 2048)
    assert found[0].least_bytes == pytest.approx(least)


def test_equal_grids_of_different_shapes_keep_their_own_work() -> None:
    recording = Recording()
    small, large = product(recording, 2048, 2048, 512), product(recording, 2048, 2048, 4096)
    for op in (small, large, small):
        recording.call(op, (GEMM, 60.0, Shape()))
    found = kernels_of(modelled(recording.build(), H200))
    assert [k.flops for k in found] == [2.0 * 2048**2 * k for k in (512, 4096, 512)]


def test_calls_that_launch_differently_are_told_apart() -> None:
    recording = Recording()
    op = product(recording, 2048, 2048, 2048)
    recording.call(op, (GEMM, 30.0, Shape()))
    recording.call(op, (GEMM, 20.0, Shape()), ("splitKreduce_kernel", 5.0, Shape()))
    found = kernels_of(modelled(recording.build(), H200))
    flops = 2.0 * 2048**3
    assert [k.flops for k in found] == [flops, flops, 0.0]


def test_an_operator_without_shapes_passes_its_kernels_to_the_one_around() -> None:
    recording = Recording()
    outer = product(recording, 1024, 1024, 1024)
    inner = recording.op("library::gemm")
    recording.builder.host(-6000.0, -4000.0, name="aten::mm", op=outer)
    recording.call(inner, (GEMM, 30.0, Shape()))
    found = kernels_of(modelled(recording.build(), H200))
    assert found[0].flops == 2.0 * 1024**3


def test_without_a_model_the_family_and_the_time_remain() -> None:
    recording = Recording()
    op = recording.op("library::nobody_knows")
    recording.call(op, (GEMM, 30.0, Shape()))
    recording.call(-1, (ADD, 4.0, Shape()))
    timeline = recording.build()
    for device in (H200, None):
        gemm, add = kernels_of(modelled(timeline, device))
        assert (gemm.kind, gemm.flops, gemm.limiter, gemm.origin) == (
            "matmul",
            0.0,
            "unknown",
            "measured",
        )
        assert gemm.duration_s == pytest.approx(30e-6)
        assert (add.kind, add.name) == ("pointwise", "elementwise add")


def test_absurd_shapes_get_no_model_and_no_traceback() -> None:
    recording = Recording()
    empty, wrong = spec(0, 8), spec(8, 8)
    odd = replace(spec(8, 8), dtype="unknown")
    for inputs in ((empty, wrong), (odd, odd), (spec(8), spec(8)), ()):
        op = recording.op("aten::mm", *inputs)
        recording.call(op, (GEMM, 30.0, Shape()))
    found = kernels_of(modelled(recording.build(), H200))
    assert all(k.flops == 0 for k in found)


def test_a_prediction_is_left_alone() -> None:
    recording = Recording()
    recording.call(-1, (GEMM, 30.0, Shape()))
    timeline = replace(recording.build(), recorded=None)
    assert modelled(timeline, H200) is timeline


@pytest.mark.parametrize(
    ("name", "least", "low", "high"),
    [("compute_bound", 0.99, 0.8, 1.1), ("input_bound", 0.75, 0.8, 1.2)],
)
def test_recorded_products_are_near_their_model(
    name: str, least: float, low: float, high: float
) -> None:
    timeline = read_trace(TRACES / "h200" / name / "rank-0.json.gz")
    device = device_of(timeline)
    joined = modelled(timeline, device)
    assert joined.recorded is not None
    kernels = kernels_of(joined)
    took = joined.events.duration_ns[joined.recorded.event] * 1e-9
    known = np.array([k.kind == "matmul" and k.flops > 0 for k in kernels])
    among = (joined.recorded.operator >= 0) & np.array([k.kind == "matmul" for k in kernels])
    assert took[known].sum() >= least * took[among].sum()
    expected = np.array([k.duration_s for k in kernels])
    assert low < expected[known].sum() / took[known].sum() < high


def test_the_layers_of_the_recorded_network_add_up() -> None:
    """Layers 8,192 wide at a batch of 8,192: every product has the same FLOPs."""
    timeline = read_trace(TRACES / "h200" / "compute_bound" / "rank-0.json.gz")
    joined = modelled(timeline, device_of(timeline))
    assert joined.recorded is not None
    kernels = kernels_of(joined)
    each = 2.0 * 8192**3
    flops = sum(k.flops for k in kernels)
    assert flops == pytest.approx(round(flops / each) * each)
    assert {round(k.flops / each) for k in kernels if k.flops} == {1}


def test_analysis_of_a_recording_has_roofline_symbols_and_lost_time() -> None:
    timeline = read_trace(TRACES / "h200" / "compute_bound" / "rank-0.json.gz")
    found = analyze(timeline, on=device_of(timeline))
    assert found.roofline is not None
    assert found.roofline.points
    matmul = next(share for share in found.kinds if share.label == "matmul")
    assert matmul.best_s is not None
    assert 0.5 * matmul.time_s < matmul.best_s < matmul.time_s
    busy = sum(share.time_s for share in found.symbols)
    assert busy == pytest.approx(sum(share.time_s for share in found.kinds))
    assert found.symbols[0].family == "matmul"
    assert "nvjet" in found.symbols[0].label
    assert found.utilisation is not None
    assert 0.5 < (found.utilisation.mfu or 0.0) < 0.9


def test_flops_are_not_stated_where_products_have_no_shapes() -> None:
    timeline = read_trace(TRACES / "h200" / "graph_decode" / "rank-0.json.gz")
    found = analyze(timeline, on=device_of(timeline))
    assert found.utilisation is None
    assert found.energy is not None
    assert found.energy.total_j is None


def test_attention_is_costed_as_the_kernels_that_ran() -> None:
    """On an H200 PyTorch would choose cuDNN's kernels; here FlashAttention's were recorded."""
    recording = Recording()
    values = ("", "", "", "", "", "1024", "1024", "0.", "True", "False", "0.125")
    tensors = [spec(4, 1024, 16, 64) for _ in range(3)]
    op = recording.op("aten::_flash_attention_forward", *tensors, values=values)
    symbol = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128>>"
    recording.call(op, (symbol, 60.0, Shape(grid=512)))
    found = kernels_of(modelled(recording.build(), H200))
    assert len(found) == 1
    assert found[0].name == "flash attention forward"
    assert found[0].flops == pytest.approx(4.0 * 4 * 16 * 64 * 1024 * 1025 / 2)
