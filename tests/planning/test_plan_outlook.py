"""What surrounds a choice: neighbours, rivals in a picture, half the cost, the second, CO2."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import asked, judged, slower

from gpuscope.document.blocks import Lines
from gpuscope.document.text import Text, render
from gpuscope.hardware.grid import grid_factor
from gpuscope.planning.neighbours import neighbours
from gpuscope.planning.outlook import around, energy_and_co2, odds, rivals
from gpuscope.planning.score import score
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Judged


def _said(block: object) -> str:
    assert isinstance(block.text, Text)  # type: ignore[attr-defined]
    return render(block.text, "en")  # type: ignore[attr-defined]


def test_neighbours_have_a_figure_and_say_by_how_much_they_do_not_fit() -> None:
    question = asked(seq=4096)
    found = candidates(question)[0]
    scores = score(question, found)
    n = next(
        n
        for n, each in enumerate(found)
        if (each.plan.tp, each.plan.pp, each.plan.fsdp) == (2, 1, "full")
        and (each.plan.microbatch, each.plan.recompute) == (2, "none")
    )
    usable = found[n].cluster.device.memory_usable_bytes
    best = replace(
        judged(1.0), candidate=found[n], peak_bytes=int(0.9 * usable), usable_bytes=usable
    )
    near = neighbours(best, (best,), found, scores, {}, "time")
    changes = {each.change: each for each in near}
    assert {"tp 2 → 1", "tp 2 → 4", "microbatch 2 → 4", "recompute none → full"} <= set(changes)
    assert changes["microbatch 2 → 4"].peak_bytes > usable > changes["tp 2 → 4"].peak_bytes
    assert changes["recompute none → full"].more == pytest.approx(1 / 3, abs=0.05)
    assert all(each.rank is None for each in near)
    known = replace(slower(best, 1.11), candidate=changes["tp 2 → 4"].candidate, rank=3)
    near = neighbours(best, (best, known), found, scores, {}, "time")
    exact = next(each for each in near if each.change == "tp 2 → 4")
    assert (exact.rank, exact.more) == (3, pytest.approx(0.11))


@pytest.fixture
def pair() -> tuple[Judged, Judged]:
    """A choice, and one on another device that takes a tenth longer and costs twice as much."""
    best = judged(1.0, "8xh200")
    return best, replace(judged(1.1, "8xh100"), usd=16.0)


def test_the_picture_has_each_interval(pair: tuple[Judged, Judged]) -> None:
    (chart,) = rivals(pair, pair[:1], pair[0]).blocks
    assert isinstance(chart, Lines)
    bars, points, front = chart.series
    assert bars.y == (0.96, 1.04, None, pytest.approx(1.056), pytest.approx(1.144), None)
    assert (points.x, front.x) == ((8.0, 16.0), (8.0,))
    assert (chart.marks[0].x, chart.marks[0].y) == (8.0, 1.0)


def test_what_would_halve_the_cost_and_make_the_second_win(pair: tuple[Judged, Judged]) -> None:
    half, second = around(pair, pair[0], "cost", least_s=0.6)
    assert "arithmetic alone takes 600 ms" in _said(half.blocks[2])
    assert "In fp8 it would take 300 ms" in _said(half.blocks[3])
    told = [_said(each) for each in second.blocks]
    assert "8x nvidia-h100-sxm" in told[0]
    assert "+100.0 %" in told[0]
    assert "less than 550 ms" in told[1]  # half of its step, since it costs twice as much
    assert "costs less than $3.44" in told[2]  # half of 6.88


def test_odds_of_the_second(pair: tuple[Judged, Judged]) -> None:
    best = pair[0]
    assert odds(best, slower(best, 1.0), "time") == pytest.approx(0.5)
    assert odds(best, slower(best, 1.1), "time") < 0.001  # errors of one device go together
    assert odds(best, pair[1], "time") > 0.005


def test_co2_names_its_grid(pair: tuple[Judged, Judged]) -> None:
    best = replace(pair[0], energy_j=3.6e6)
    (line,) = energy_and_co2(best, 1000.0, grid_factor("fr"))
    assert "1,000 kWh" in render(line, "en")
    assert "56 kg" in render(line, "en")
    assert "France" in render(line, "en")
    assert "as given" in render(energy_and_co2(best, None, grid_factor("100"))[0], "en")
    assert energy_and_co2(replace(best, energy_j=None), None, grid_factor(None)) == ()


def test_alone_there_is_no_second(pair: tuple[Judged, Judged]) -> None:
    assert len(around(pair[:1], pair[0], "time")) == 1
