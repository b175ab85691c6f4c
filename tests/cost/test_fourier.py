"""Fourier transforms, held against kernels recorded on an H100."""

from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.cost.types import Kernel

RATES = 3.35 / 4.8
"""The recorded card's memory rate over the H200's, which is costed here."""

FIELD, HALF = (16, 48, 128, 128), (16, 48, 128, 65)


def transform(name: str, *dims: int, normalization: int = 0) -> tuple[Kernel, ...]:
    kinds = {"r2c": ("float32", "complex64"), "c2c": ("complex64",) * 2, "c2r": ("complex64", "")}
    given = dense(*(HALF if name == "c2r" else FIELD), dtype=kinds[name][0], at=0)
    made = dense(*(HALF if name == "r2c" else FIELD), dtype=kinds[name][1] or "float32", at=1)
    return run(f"_fft_{name}", (given,), (made,), dim=dims, normalization=normalization)


def test_each_dimension_is_a_pass_through_memory() -> None:
    """38.8 and 44.7 us."""
    one, two = transform("r2c", 2, 3)
    assert one.duration_s + two.duration_s == pytest.approx(83e-6 * RATES, rel=0.3)
    assert len(transform("r2c", 3)) == 1


def test_two_small_dimensions_go_in_one_kernel_that_takes_as_long() -> None:
    """150 us, where the two passes of a real transform of that size take 83."""
    (both,) = transform("c2c", 2, 3)
    assert both.duration_s == pytest.approx(150e-6 * RATES, rel=0.3)


def test_the_way_back_keeps_its_input_and_divides() -> None:
    names = [k.name for k in transform("c2r", 2, 3, normalization=2)]
    assert names == ["fft_copy", "fft", "fft", "fft_scale"]


def test_odd_lengths_are_less_sure() -> None:
    sure, unsure = (
        run(
            "_fft_c2c",
            (dense(64, n, dtype="complex64", at=0),),
            (dense(64, n, dtype="complex64", at=1),),
            dim=(1,),
            normalization=0,
        )[0]
        for n in (4096, 4099)
    )
    assert unsure.high_s / unsure.duration_s > 2 * sure.high_s / sure.duration_s
