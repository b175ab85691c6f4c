"""Ways to run one's own code that are one decision away from a choice: by hand."""

from __future__ import annotations

import pytest

from gpuscope.hardware import parse_target
from gpuscope.planning.own.near import changed, neighbours
from gpuscope.planning.own.simulate import Quick
from gpuscope.planning.own.types import Changed, Weighed

ON = parse_target("h100")
MINE = Changed(ON, "", 8, ("compile",), 8)
TWICE = Changed(ON, "", 16, ("compile",), 8)
BARE = Changed(ON, "", 8, (), 8)
BOTH = Changed(ON, "", 16, (), 8)


def _weighed(each: Changed, step_s: float, peak: int) -> Weighed:
    return Weighed(
        candidate=each, scored_s=step_s, step_s=step_s, low_s=step_s, high_s=step_s,
        peak_bytes=peak, usable_bytes=1000, fits=1.0, energy_j=None, usd=None,
    )  # fmt: skip


def test_one_decision() -> None:
    assert changed(MINE, TWICE) == "batch 8 → 16"
    assert changed(MINE, BARE) == "− compile"
    assert changed(BARE, MINE) == "+ compile"
    assert changed(MINE, BOTH) is None
    assert changed(MINE, MINE) is None
    assert changed(MINE, Changed(parse_target("h200"), "", 8, ("compile",), 8)) is None


def test_a_sample_counts_and_the_quick_score_is_scaled() -> None:
    found = [MINE, TWICE, BARE, BOTH]
    scores = [Quick(1.0, 100), Quick(1.5, 180), Quick(2.0, 110), Quick(3.0, 190)]
    best = _weighed(MINE, 2.0, 200)  # twice the quick score, in either
    near = {each.change: each for each in neighbours("time", best, [best], found, scores)}
    assert set(near) == {"batch 8 → 16", "− compile"}
    # 1.5 times the step for twice the samples.
    assert near["batch 8 → 16"].more == pytest.approx(-0.25)
    assert near["batch 8 → 16"].peak_bytes == pytest.approx(360)
    assert near["− compile"].more == pytest.approx(1.0)
    known = _weighed(TWICE, 5.0, 7)
    exact = {e.change: e for e in neighbours("time", best, [best, known], found, scores)}
    assert exact["batch 8 → 16"].more == pytest.approx(0.25)
    assert (exact["batch 8 → 16"].peak_bytes, exact["batch 8 → 16"].rank) == (7, 0)
