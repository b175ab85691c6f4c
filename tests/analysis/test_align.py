"""A call's kernels against its model's: nothing is lost, nothing counted twice."""

from __future__ import annotations

import pytest
from builders import kernel
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.align import Launch, align, bare

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
MAIN = kernel(10.0, name="gemm", kind="matmul", flops=1e9, read_bytes=4e6, written_bytes=1e6)


def launch(symbol: str, us: float, sort: str = "kernel", nbytes: int = 0) -> Launch:
    return Launch(symbol, sort, us * 1e-6, nbytes)


def test_one_to_one_keeps_the_models_numbers() -> None:
    found = align([MAIN], [launch(GEMM, 12.0)])
    assert found is not None
    assert found[0].flops == 1e9
    assert found[0].duration_s == pytest.approx(10e-6)
    assert found[0].name == "nvjet bf16 256x128 cluster 1x2"
    assert found[0].tile == (256, 128, 64)


def test_what_the_library_split_is_divided_by_time() -> None:
    found = align([MAIN], [launch(GEMM, 30.0), launch(GEMM, 10.0)])
    assert found is not None
    assert [k.flops for k in found] == pytest.approx([0.75e9, 0.25e9])


def test_a_memset_beside_the_product_gets_no_flops() -> None:
    found = align([MAIN], [launch("Memset (Device)", 1.0, "memset", 64), launch(GEMM, 10.0)])
    assert found is not None
    assert (found[0].kind, found[0].flops, found[0].written_bytes) == ("memset", 0.0, 64.0)
    assert found[1].flops == 1e9


def test_changes_of_layout_get_no_flops() -> None:
    names = ("nchwToNhwcKernel<bf16>", "sm90_xmma_fprop_implicit_gemm_x", "nhwcToNchwKernel<bf16>")
    found = align([MAIN], [launch(name, 10.0) for name in names])
    assert found is not None
    assert [k.flops for k in found] == [0.0, 1e9, 0.0]


def test_gradients_are_told_by_their_symbols() -> None:
    data = kernel(10.0, name="conv_dgrad", kind="convolution", flops=1.0)
    weight = kernel(10.0, name="conv_wgrad", kind="convolution", flops=3.0)
    found = align(
        [data, weight], [launch("sm90_xmma_wgrad_x", 9.0), launch("sm90_xmma_dgrad_x", 9.0)]
    )
    assert found is not None
    assert [k.flops for k in found] == [3.0, 1.0]


def test_preparing_a_workspace_gets_no_flops() -> None:
    """CUTLASS starts its one-thread preparation while the kernel before runs: it is no product."""
    data = kernel(10.0, name="conv_dgrad", kind="convolution", flops=1.0)
    weight = kernel(10.0, name="conv_wgrad", kind="convolution", flops=3.0)
    prepares = "cask_plugin__5x_cudnn::xmma__5x_cudnn::init_device_workspace_kernel<implicit_gemm>"
    one_thread = Launch("some_implicit_gemm_prologue", "kernel", 3e-6, grid=1, block=1)
    found = align(
        [data, weight],
        [
            launch("sm90_xmma_dgrad_x", 9.0),
            launch(prepares, 29.0),
            one_thread,
            launch("sm90_xmma_wgrad_x", 9.0),
        ],
    )
    assert found is not None
    assert [k.flops for k in found] == [1.0, 0.0, 0.0, 3.0]


def test_no_launch_is_given_more_than_the_device_can_do() -> None:
    def peak(dtype: str, kind: str) -> float:
        return 1e15

    two = [MAIN, kernel(10.0, kind="matmul", flops=1e9)]
    found = align(two, [launch(GEMM, 19.0), launch(GEMM, 0.1)], peak)
    assert found is not None
    assert all(k.flops <= 1e15 * 1e-6 * us for k, us in zip(found, (19.0, 0.1), strict=True))
    assert sum(k.flops for k in found) == pytest.approx(2e9)
    assert align([MAIN], [launch(GEMM, 0.5)], peak) is None  # 2 PFLOP/s


def test_other_kernels_than_the_models_are_not_taken_for_it() -> None:
    assert align([MAIN], [launch("Memset (Device)", 1.0, "memset")]) is None
    assert align([MAIN], [launch("void at::native::reduce_kernel<512>", 1.0)]) is None
    assert align([], [launch(GEMM, 1.0)]) is None


def test_a_far_slower_kernel_is_not_limited_by_what_its_model_says() -> None:
    found = align([MAIN], [launch(GEMM, 100.0)])
    assert found is not None
    assert found[0].limiter == "unknown"


def test_copies_know_their_bytes_without_a_model() -> None:
    up = bare(launch("Memcpy HtoD (Pageable -> Device)", 5.0, "memcpy", 100))
    assert (up.kind, up.lane, up.least_bytes, up.written_bytes) == (
        "transfer",
        "copy_h2d",
        100.0,
        100.0,
    )
    within = bare(launch("Memcpy DtoD (Device -> Device)", 5.0, "memcpy", 100))
    assert (within.kind, within.least_bytes) == ("copy", 200.0)
    assert within.limiter == "unknown"


names = st.sampled_from([GEMM, "splitKreduce_kernel", "Memset (Device)", "nchwToNhwcKernel"])
launches = st.lists(st.tuples(names, st.floats(0.1, 1e3)), min_size=1, max_size=6)
models = st.lists(
    st.tuples(st.floats(0, 1e12), st.floats(0, 1e9), st.sampled_from(["matmul", "copy", "memset"])),
    min_size=1,
    max_size=6,
)


@given(models, launches)
def test_work_and_traffic_of_a_call_are_kept(
    model: list[tuple[float, float, str]], done: list[tuple[str, float]]
) -> None:
    expected = [
        kernel(5.0, kind=kind, flops=flops if kind == "matmul" else 0.0, read_bytes=nbytes)
        for flops, nbytes, kind in model
    ]
    found = align(
        expected,
        [launch(n, us, "memset" if n.startswith("Memset") else "kernel") for n, us in done],
    )
    if found is None:
        return
    assert len(found) == len(done)
    assert sum(k.flops for k in found) == pytest.approx(sum(k.flops for k in expected))
    assert sum(k.read_bytes for k in found) == pytest.approx(sum(k.read_bytes for k in expected))
    assert sum(k.duration_s for k in found if k.origin != "measured") == pytest.approx(
        sum(k.duration_s for k in expected)
    )
