"""Fourier transforms, held against kernels recorded on an H100 and an H200."""

from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.cost.fourier import fourier_bytes, passes, real_passes
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op

RECORDED_ON = "h100"

FIELD, HALF = (16, 48, 128, 128), (16, 48, 128, 65)


def transform(name: str, *dims: int, normalization: int = 0) -> tuple[Kernel, ...]:
    kinds = {"r2c": ("float32", "complex64"), "c2c": ("complex64",) * 2, "c2r": ("complex64", "")}
    given = dense(*(HALF if name == "c2r" else FIELD), dtype=kinds[name][0], at=0)
    made = dense(*(HALF if name == "r2c" else FIELD), dtype=kinds[name][1] or "float32", at=1)
    return run(
        f"_fft_{name}", (given,), (made,), RECORDED_ON, dim=dims, normalization=normalization
    )


def test_each_dimension_is_a_pass_through_memory() -> None:
    """38.8 and 44.7 us."""
    one, two = transform("r2c", 2, 3)
    assert one.duration_s + two.duration_s == pytest.approx(83e-6, rel=0.3)
    assert len(transform("r2c", 3)) == 1


def test_two_small_dimensions_go_in_one_kernel_that_takes_as_long() -> None:
    """150 us, where the two passes of a real transform of that size take 83."""
    (both,) = transform("c2c", 2, 3)
    assert both.duration_s == pytest.approx(150e-6, rel=0.3)


def test_the_way_back_keeps_its_input_and_divides() -> None:
    names = [k.name for k in transform("c2r", 2, 3, normalization=2)]
    assert names == ["fft_copy", "fft", "fft_real", "fft_scale"]


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
    assert unsure.high_s / unsure.duration_s > 1.5 * sure.high_s / sure.duration_s


@pytest.mark.parametrize(
    ("length", "dense_one", "names"),
    [
        (72, False, ["fft"]),
        (4096, True, ["fft"]),
        (68, True, ["fft"]),  # vector_fft<68>; elsewhere regular_fft_factor<4>, prime<17>
        (68, False, ["fft", "fft_prime"]),
        (53, False, ["fft_prime"]),
        (1073, True, ["fft_prime", "fft_prime"]),  # 29 x 37
        (6256, True, ["fft", "fft_prime", "fft_prime"]),  # 16 x 17 x 23
        (199, False, ["fft_bluestein"]),
        (4978, True, ["fft_bluestein"] * 6),  # 2 x 19 x 131
    ],
)
def test_the_passes_of_a_length_are_the_recorded(
    length: int, dense_one: bool, names: list[str]
) -> None:
    assert [p.name for p in passes(length, dense_one)] == names


@pytest.mark.parametrize(
    ("length", "names"),
    [
        (72, ["fft_real"]),
        (29, ["fft_real"]),
        (122, ["fft_prime", "fft_around"]),  # 61 complex values, and what turns them
        (117, ["fft_around", "fft", "fft_around"]),  # two rows as one
    ],
)
def test_real_values_are_half_as_many(length: int, names: list[str]) -> None:
    assert [p.name for p in real_passes(length)] == names


def recorded(name: str, given: tuple[int, ...], made: tuple[int, ...], dims: tuple[int, ...]) -> Op:
    kinds = {"r2c": ("float32", "complex64"), "c2c": ("complex64",) * 2, "c2r": ("complex64", "")}
    first, second = kinds[name]
    x, y = dense(*given, dtype=first, at=0), dense(*made, dtype=second or "float32", at=1)
    args = {"dim": dims, "normalization": 2 if name == "c2r" else 0}
    return Op(0, f"aten::_fft_{name}", "default", (x,), (y,), args)


@pytest.mark.parametrize(
    ("op", "recorded_s", "peak_bytes"),
    [
        # An H200, CUDA 13 (micro/cases.jsonl.gz): time, and what the call took from the allocator.
        (recorded("c2c", (45, 89, 71, 58), (45, 89, 71, 58), (1, 2, 3)), 633e-6, 131_940_864),
        (recorded("r2c", (757, 205, 108), (757, 205, 55), (1, 2)), 197.7e-6, 136_563_712),
        (recorded("r2c", (2264, 30, 247), (2264, 30, 124), (1, 2)), 177.1e-6, 201_594_368),
        (recorded("c2r", (3890, 23, 62), (3890, 23, 122), (1, 2)), 210.3e-6, 132_457_984),
        (recorded("c2c", (521, 129, 53), (521, 129, 53), (1, 2)), 127.6e-6, 56_993_792),
    ],
)
def test_odd_lengths_take_and_borrow_what_was_recorded(
    op: Op, recorded_s: float, peak_bytes: int
) -> None:
    found = run(op.name.partition("::")[2], op.inputs, op.outputs, **op.args)
    assert sum(k.duration_s for k in found) == pytest.approx(recorded_s, rel=0.25)
    assert op.outputs[0].nbytes + fourier_bytes(op) == pytest.approx(peak_bytes, rel=0.01)
