from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.types import Kernel


def _sampled(
    picture: tuple[int, ...],
    rows: int,
    columns: int,
    dtype: str = "float32",
    back: bool = False,
    on: str = "h200",
    **args: object,
) -> tuple[Kernel, ...]:
    x, grid = dense(*picture, dtype=dtype), dense(picture[0], rows, columns, 2, dtype=dtype)
    out = dense(*picture[:2], rows, columns, dtype=dtype)
    if back:
        inputs = (out, x, grid)
        return run("grid_sampler_2d_backward", inputs, (x, grid), hot=True, on=on, **args)
    return run("grid_sampler_2d", (x, grid), (out,), hot=True, on=on, **args)


@pytest.mark.parametrize(
    ("shape", "side", "us"),
    [((2, 105, 83, 83), 52, 24.7), ((3, 97, 35, 35), 13, 21.0), ((7, 66, 64, 64), 24, 16.4)],
)
def test_places_of_a_grid_go_through_the_channels(
    shape: tuple[int, ...], side: int, us: float
) -> None:
    """Recorded on an H200; the gradient takes two to four times as long."""
    x, grid = dense(*shape), dense(shape[0], side, side, 2)
    out = dense(*shape[:2], side, side)
    (made,) = run("grid_sampler_2d", (x, grid), (out,), hot=True)
    assert made.duration_s == pytest.approx(us * 1e-6, rel=0.2)
    back = run("grid_sampler_2d_backward", (out, x, grid), (x, grid), hot=True)
    assert 1.8 < back[-1].duration_s / made.duration_s < 5


@pytest.mark.parametrize(
    ("picture", "places", "forward_us", "backward_us"),
    [
        ((20, 100, 128, 128), 12544, 366.0, 1315.0),
        ((20, 16, 128, 128), 12544, 60.0, None),
        ((43, 8, 268, 20), 366, 4.2, 12.4),
        ((19, 3, 275, 39), 3553, 4.7, 14.2),
        ((2, 24, 158, 88), 779, 9.1, 24.2),
    ],
)
def test_places_in_no_order_have_sectors_of_their_own(
    picture: tuple[int, ...], places: int, forward_us: float, backward_us: float | None
) -> None:
    assert seconds(_sampled(picture, 1, places)) == pytest.approx(forward_us * 1e-6, rel=0.25)
    if backward_us is not None:
        back = seconds(_sampled(picture, 1, places, back=True))
        assert back == pytest.approx(backward_us * 1e-6, rel=0.25)


@pytest.mark.parametrize(
    ("picture", "rows", "columns", "dtype", "back", "us"),
    [
        ((40, 12, 153, 157), 4633, 1, "float32", False, 41.9),
        ((40, 12, 153, 157), 4633, 1, "float32", True, 188.3),
        ((56, 14, 102, 272), 1, 687, "float32", True, 120.8),
        ((59, 1, 20, 36), 41011, 1, "float32", False, 16.1),
        ((61, 2, 20, 133), 8905, 1, "float32", True, 68.3),
        ((19, 30, 305, 343), 1, 15510, "float16", False, 143.2),
        ((19, 30, 305, 343), 1, 15510, "float16", True, 1200.7),
        ((2, 33, 229, 304), 229, 304, "float16", True, 567.8),
        ((10, 2, 88, 83), 88, 83, "float32", True, 5.3),
    ],
)
def test_recorded_calls_of_the_library(
    picture: tuple[int, ...], rows: int, columns: int, dtype: str, back: bool, us: float
) -> None:
    made = _sampled(picture, rows, columns, dtype, back, align_corners=True)
    assert made[-1].name.startswith("cudnn_grid_sampler")
    assert seconds(made) == pytest.approx(us * 1e-6, rel=0.4)


@pytest.mark.parametrize(
    ("picture", "dtype", "args", "on"),
    [
        ((2, 8, 64, 64), "float32", {"align_corners": False}, "h200"),
        ((2, 8, 64, 64), "float32", {"align_corners": True, "padding_mode": 1}, "h200"),
        ((2, 8, 64, 64), "float32", {"align_corners": True, "interpolation_mode": 1}, "h200"),
        ((2, 8, 64, 64), "bfloat16", {"align_corners": True}, "h200"),
        ((2, 1025, 64, 64), "float32", {"align_corners": True}, "h200"),
        ((2, 8, 64, 64), "float32", {"align_corners": True}, "mi300x"),
    ],
)
def test_what_the_library_does_not_take(
    picture: tuple[int, ...], dtype: str, args: dict[str, object], on: str
) -> None:
    (made,) = _sampled(picture, 64, 64, dtype, on=on, **args)
    assert made.name == "grid_sampler_2d"
    (taken,) = _sampled((2, 1024, 64, 64), 64, 64, align_corners=True)
    assert taken.name == "cudnn_grid_sampler_forward"


def test_the_librarys_own_operator_has_its_own_order() -> None:
    x, grid, out = dense(4, 8, 32, 48), dense(4, 900, 1, 2), dense(4, 8, 900, 1)
    named = run("cudnn_grid_sampler_backward", (x, grid, out), (x, grid), hot=True)
    chosen = _sampled((4, 8, 32, 48), 900, 1, back=True, align_corners=True)
    assert [k.duration_s for k in named] == [k.duration_s for k in chosen]


def test_lanes_meet_in_a_small_picture() -> None:
    """And of one that is a column, only half the neighbours are inside."""
    large, small, column = (
        seconds(_sampled((4, 16, *size), 1, 65536)) for size in ((256, 256), (8, 16), (65536, 1))
    )
    assert small < large / 2
    assert column == pytest.approx(large / 2, rel=0.1)


def test_a_bicubic_place_reads_16_pixels_one_after_the_other() -> None:
    """181.5 us forward and 688 backward on an H200."""
    picture, grid = dense(8, 64, 64, 64, at=0), dense(8, 64, 64, 2, at=1)
    given, out = (picture, grid), dense(8, 64, 64, 64, at=2)
    forward = run("grid_sampler_2d", given, (out,), interpolation_mode=2, padding_mode=0)
    assert seconds(forward) == pytest.approx(181.5e-6, rel=0.2)
    grads = (dense(8, 64, 64, 64, at=3), dense(8, 64, 64, 2, at=4))
    back = run(
        "grid_sampler_2d_backward", (out, *given), grads, interpolation_mode=2, padding_mode=0
    )
    assert seconds(back) == pytest.approx(691e-6, rel=0.2)
