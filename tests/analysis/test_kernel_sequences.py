"""Sequences of small kernels on timelines counted by hand."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder

from gpuscope.analysis.kernel_sequences import LONGEST, kernel_sequences
from gpuscope.analysis.window import Window, device_work

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()"
COPY = "void at::native::direct_copy_kernel_cuda()"
GEMM = "ampere_sgemm_128x64_nn"


def played(names: list[str], stream: str = "stream 7", gap_us: float = 2.0) -> TimelineBuilder:
    b = TimelineBuilder(origin="measured")
    now = 0.0
    for name in names:
        b.work(now, now + 10, name=name, stream=stream)
        now += 10 + gap_us
    return b


def found(b: TimelineBuilder, steps: int = 1):
    timeline = b.build()
    return kernel_sequences(timeline, device_work(timeline, 0, Window(0, 10**9, steps)))


def test_equal_runs_between_products_are_one_sequence() -> None:
    (sequence,) = found(played([ADD, COPY, GEMM, ADD, COPY, GEMM, ADD]), steps=2)
    assert len(sequence.kernels) == 2
    assert sequence.count == 1.0
    assert sequence.kernel_s == pytest.approx(40e-6 / 2)
    assert sequence.gap_s == pytest.approx(4e-6 / 2)


def test_single_kernels_and_what_comes_once_are_none() -> None:
    assert found(played([ADD, GEMM, ADD, GEMM, COPY])) == ()
    assert found(played([ADD, COPY, GEMM, COPY, ADD])) == ()


def test_streams_are_apart() -> None:
    b = played([ADD, GEMM, ADD])
    b.work(40, 50, name=COPY, stream="stream 8")
    b.work(60, 70, name=COPY, stream="stream 8")
    assert found(b) == ()


def test_an_endless_run_is_cut() -> None:
    (sequence,) = found(played([ADD] * (2 * LONGEST)))
    assert (len(sequence.kernels), sequence.count) == (LONGEST, 2.0)
