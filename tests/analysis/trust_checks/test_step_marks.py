"""Steps and the device work they mark."""

from __future__ import annotations

from rank_builder import RankBuilder

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks import step_marks
from gpuscope.analysis.trust_checks.facts import rank_facts


def remarks(b: RankBuilder) -> dict[str, Remark]:
    found = step_marks.check(rank_facts(b.timeline(), 0, several=False))
    return {remark.code: remark for remark in found}


def steps(busy_us: list[float], late_us: float = 0.0) -> RankBuilder:
    b = RankBuilder()
    for number, busy in enumerate(busy_us):
        start = 100.0 * number
        b.step(start, start + 100)
        b.work(start + late_us, start + late_us + busy)
    return b


def test_work_within_its_steps() -> None:
    assert remarks(steps([80] * 5)) == {}


def test_a_device_behind_its_host() -> None:
    found = remarks(steps([80] * 5, late_us=50))["work_outside_steps"]
    assert found.severity == "note"
    assert "30.0 µs" in found.sentence


def test_no_work_within_the_steps() -> None:
    assert remarks(steps([80] * 2, late_us=500))["work_outside_steps"].severity == "doubt"


def test_a_cut_last_step() -> None:
    found = remarks(steps([80, 80, 80, 80, 20]))["cut_step"]
    assert "last marked step holds 25 %" in found.sentence


def test_a_late_device_cuts_nothing() -> None:
    # The first step lacks 70 us, which lie after the last mark.
    assert "cut_step" not in remarks(steps([80] * 5, late_us=70))
