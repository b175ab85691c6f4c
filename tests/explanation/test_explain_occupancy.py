"""`explain occupancy`: its figures agree with each other and with the law behind them."""

from __future__ import annotations

import pytest
from blocks import blocks, fact, sound, titled

from gpuscope.document.blocks import Bars, Explorer, Lines, Table
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation.occupancy import occupancy
from gpuscope.explanation.residency import Launch, residency
from gpuscope.hardware import calibration_for, device


@pytest.mark.parametrize("on", ["h200", "a100", "t4", "mi300x", "b200", "rx-7900-xtx", "v100"])
def test_every_device_is_sound(on: str) -> None:
    found = occupancy(256, 64, "24KB", on=on)
    sound(found)
    assert len(blocks(found, Lines)) == 4


def test_the_issue_s_own_example() -> None:
    found = occupancy(256, 64, "48KB", on="a100")
    assert fact(found, "occupancy") == pytest.approx(0.375)
    bars = titled(found, Bars, "Blocks that each limit")
    assert [bar.parts[0].value for bar in bars.bars] == [8, 4, 3, 32]
    assert bars.limit == 3
    assert "40 KB" in found.summary[2]


def test_each_step_of_the_ladder_does_what_it_says() -> None:
    where = device("a100")
    table = titled(occupancy(256, 64, "48KB", on="a100"), Table, "What each block more")
    assert len(table.rows) == 6
    for blocks_, share, registers, shared, _ in table.rows:
        launch = Launch(256, min(int(registers), 64), min(int(shared), 49152))  # type: ignore[arg-type]
        assert residency(where, launch).blocks >= blocks_  # type: ignore[operator]
        assert share == pytest.approx(blocks_ * 8 / 64)  # type: ignore[operator]


def test_curves_pass_through_the_launch() -> None:
    found = occupancy(192, 72, "20KB", on="h100")
    for lines in blocks(found, Lines)[:3]:
        mark = lines.marks[0]
        series = lines.series[0]
        assert mark.x is not None
        assert series.y[series.x.index(mark.x)] == pytest.approx(mark.y)


def test_the_explorer_starts_at_the_answer() -> None:
    found = occupancy(192, 72, "20KB", on="h100")
    explorer = blocks(found, Explorer)[0]
    at = 0
    for slider in explorer.sliders:
        at = at * len(slider.values) + slider.start
    assert explorer.outputs[0].values[at] == pytest.approx(fact(found, "occupancy"))


def test_little_s_law_by_hand() -> None:
    found = occupancy(1024, 32, 0, on="h200")
    latency = calibration_for(device("h200")).value("bandwidth.latency_s")
    needed = latency * 4.8e12
    assert fact(found, "bytes that must be under way") == pytest.approx(needed)
    rows = titled(found, Table, "What this occupancy can draw").rows
    assert rows[0][2] == pytest.approx(2048 * 4 * 132 / needed)
    assert rows[0][3] is None  # 4-byte loads, one each, never fill the pipe
    assert rows[1][2] == 1.0


def test_full_occupancy_needs_no_advice() -> None:
    found = occupancy(256, 32, 0, on="a100")
    assert not any("Smallest change" in line for line in found.summary)
    table = titled(found, Table, "What each block more")
    assert [row[4] for row in table.rows] == [Text("now")]


def test_bad_input_names_the_limit() -> None:
    with pytest.raises(InvalidValueError, match="at most 1024"):
        occupancy(1025, 32, 0)
    with pytest.raises(InvalidValueError, match="threads = 0"):
        occupancy(0, 32, 0)
    with pytest.raises(InvalidValueError, match="227 KB"):
        occupancy(256, 32, "300KB", on="h200")
    with pytest.raises(UnsupportedError):
        occupancy(256, 32, 0, on="tpu-v5e")
    with pytest.raises(UnknownNameError):
        occupancy(256, 32, 0, on="a1000")


@pytest.mark.parametrize("on", ["mi300x", "v100", "t4", "h200"])
def test_what_is_not_used_has_no_bar(on: str) -> None:
    shown = titled(occupancy(shared="0", on=on), Bars, "Blocks that each limit")
    assert all(part.value < 1e6 for bar in shown.bars for part in bar.parts)
    assert len(shown.bars) == (4 if on == "h200" else 3)  # the system keeps 1 KB there
    if on != "h200":
        assert "no shared memory" in shown.note
