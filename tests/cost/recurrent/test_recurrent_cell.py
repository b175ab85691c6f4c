"""One step of a cell: bytes by hand, the recorded calls of an H200, limits."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from statistics import median

import pytest
from memory_work import dense, one

DREAMS = Path(__file__).parents[3] / "validation/recordings/h200/fresh/dreams.csv.gz"


def gru(rows: int, width: int, dtype: str = "float32"):
    shapes = ((rows, 3 * width), (rows, 3 * width), (rows, width), (3 * width,), (3 * width,))
    made = ((rows, width), (rows, 5 * width))
    return tuple(dense(*s, dtype=dtype, at=n) for n, s in enumerate(shapes)), tuple(
        dense(*s, dtype=dtype, at=9 + n) for n, s in enumerate(made)
    )


def gru_backward(rows: int, width: int):
    shapes = (rows, width), (rows, 5 * width)
    made = (rows, 3 * width), (rows, 3 * width), (rows, width)
    return tuple(dense(*s, at=n) for n, s in enumerate(shapes)), tuple(
        dense(*s, at=9 + n) for n, s in enumerate(made)
    )


def test_bytes_and_blocks_of_a_gru_by_hand() -> None:
    made = one("gpuscope::gru_cell", *gru(4096, 1024))
    state = 4096 * 1024 * 4
    assert made.read_bytes == 7 * state + 6 * 1024 * 4
    assert made.written_bytes == 6 * state
    assert made.grid == 4096 * 1024 // 512
    assert made.limiter == "memory"


def test_an_lstm_has_a_gate_and_a_state_more() -> None:
    rows, width = 4096, 1024
    given = [dense(rows, w * width, at=n) for n, w in enumerate((4, 4, 1))]
    made = [dense(rows, w * width, at=9 + n) for n, w in enumerate((1, 1, 4))]
    found = one("gpuscope::lstm_cell", tuple(given), tuple(made))
    state = rows * width * 4
    assert (found.read_bytes, found.written_bytes) == (9 * state, 6 * state)
    back = one("gpuscope::lstm_cell_backward", (*made, given[2]), (given[0], given[2]))
    assert back.grid == rows * width // 512


@pytest.mark.parametrize(("way", "made"), [("forward", gru), ("backward", gru_backward)])
def test_the_recorded_steps_of_a_world_model(way, made) -> None:
    """Forty-eight steps of 32 rows of 400 (set two, seen). What comes from the products just before
    is hot; the way back reads what was kept long ago."""
    with gzip.open(DREAMS, "rt") as file:
        rows = [r for r in csv.DictReader(file) if f"gru_cell_{way}" in r["kernel"]]
    assert len(rows) == 48
    name = "gpuscope::gru_cell" + ("_backward" if way == "backward" else "")
    given, found = made(32, 400)
    said = one(name, given, found, hot=(True, way == "forward", *[True] * (len(given) - 2)))
    assert {(r["grid"], r["block"]) for r in rows} == {(f"{said.grid}x1x1", f"{said.block}x1x1")}
    assert said.duration_s * 1e6 == pytest.approx(
        median(float(r["duration_us"]) for r in rows), rel=0.25
    )


def test_more_rows_take_no_less() -> None:
    times = [
        one("gpuscope::gru_cell", *gru(rows, 512)).duration_s for rows in (64, 1024, 16384, 65536)
    ]
    assert times == sorted(times)
    assert times[0] < 0.2 * times[-1]
