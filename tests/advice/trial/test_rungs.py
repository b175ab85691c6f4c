"""The rungs of a ladder multiply to its end, whatever the search had time for."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from gpuscope.advice.results import Forecast, Ladder, Measured, Target, Trial
from gpuscope.advice.trial.ladder_explanation import explain_ladder
from gpuscope.advice.trial.ladder_store import read_ladder
from gpuscope.advice.trial.rungs import best_step_s, product, rungs, scatters
from gpuscope.document.blocks import Bars, Table
from gpuscope.document.text import Text

LADDERS = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "ladders"

QUICK, ALL = ("sdpa",), ("sdpa", "compile")


def _measured(step_s: float) -> Measured:
    return Measured(step_s, 0.99 * step_s, 1.01 * step_s, 100)


def _trial(
    names: tuple[str, ...],
    against: tuple[str, ...],
    purpose: str,
    gain: float | None = None,
    step_s: float | None = None,
    expected: float | None = None,
) -> Trial:
    told = Forecast(names, "helps", Text("Fewer passes."), expected) if not against else None
    return Trial(
        names,
        tuple(n for n in names if n not in against),
        against,
        "skipped" if gain is None else "kept",
        told,
        expected,
        gain,
        gain and 0.99 * gain,
        gain and 1.01 * gain,
        None if step_s is None else _measured(step_s),
        seconds=0.0 if gain is None else 20.0,
        purpose=purpose,  # type: ignore[arg-type]
    )


def _ladder(trials: tuple[Trial, ...], best: tuple[str, ...], whole: float) -> Ladder:
    return Ladder(
        Target("build", "train.py:build"),
        "NVIDIA H200",
        "time",
        _measured(0.0781),
        trials,
        best,
        whole,
        0.98 * whole,
        1.02 * whole,
    )


def _cut_short() -> Ladder:
    """As it was recorded: little time, so what needs no compiler was secured, then the rest won on
    top of it; of the single steps only the last one was known."""
    compiled = _trial(ALL, QUICK, "jump", 1.55, 0.0292, 1.42)
    trials = (
        _trial(QUICK, (), "part", 1.70, 0.0459, 1.75),
        compiled,
        _trial(QUICK, (), "step"),
        replace(compiled, purpose="step", seconds=0.0),
    )
    return _ladder(trials, ALL, 1.70 * 1.55)


def test_no_rung_is_left_out() -> None:
    found = rungs(_cut_short())
    assert [r.added for r in found] == [("sdpa",), ("compile",)]
    assert product(found) == pytest.approx(0.0781 / found[-1].step_s)
    assert found[-1].step_s == pytest.approx(best_step_s(_cut_short()))
    assert found[0].step_s == pytest.approx(0.0781 / 1.70)


def test_table_bars_and_headline_tell_the_same_steps() -> None:
    story = explain_ladder(_cut_short())
    blocks = [b for s in story.sections for b in s.blocks]
    table = next(b for b in blocks if isinstance(b, Table))
    bars = next(b for b in blocks if isinstance(b, Bars))
    steps = [row[4] for row in table.rows]
    assert steps == pytest.approx([bar.parts[0].value for bar in bars.bars])
    assert "29.6 ms instead of 78.1 ms: 2.63×" in story.summary[0]  # type: ignore[operator]
    assert steps[-1] == pytest.approx(0.0781 / 2.635)


def test_what_was_not_tried_step_by_step_is_the_last_rung() -> None:
    """The jump met the original; of its steps there was time for the first only."""
    jump = _trial(ALL, (), "jump", 3.0, 0.026, 3.3)
    first = _trial(QUICK, (), "step", 1.5, 0.05, 1.65)
    found = rungs(_ladder((jump, first, _trial(ALL, QUICK, "step")), ALL, 3.0))
    assert [r.added for r in found] == [("sdpa",), ("compile",)]
    assert found[-1].trial is None
    assert found[-1].speedup == pytest.approx(2.0)
    assert found[-1].expected == pytest.approx(2.0)
    low, high = found[-1].low, found[-1].high
    assert low is not None
    assert high is not None
    assert low < 2.0 < high
    assert high / low > 1.01 / 0.99  # wider than either interval that it comes of
    assert product(found) == pytest.approx(3.0)


def test_the_whole_gain_measured_by_itself_stands_beside_its_rungs() -> None:
    steps = (_trial(QUICK, (), "step", 1.5), _trial(ALL, QUICK, "step", 2.0))
    made = _ladder((*steps, _trial(ALL, (), "final", 3.6)), ALL, 3.6)
    assert scatters(made, rungs(made))
    table = next(b for s in explain_ladder(made).sections for b in s.blocks if isinstance(b, Table))
    assert [row[2] for row in table.rows] == ["", 1.5, 2.0, 3.6]
    assert table.rows[-1][4] == pytest.approx(0.0781 / 3.6)
    assert "multiply to 3.00×" in str(table.note)
    near = replace(made, speedup=3.02, low=2.95, high=3.08)
    assert not scatters(near, rungs(near))


def test_what_was_refused_is_no_rung() -> None:
    spoilt = replace(_trial(QUICK, (), "part", 9.0), outcome="parity")
    found = rungs(_ladder((spoilt, _trial(ALL, (), "jump", 3.0)), ALL, 3.0))
    assert [r.added for r in found] == [ALL]
    assert rungs(_ladder((spoilt,), (), 1.0)) == ()


@pytest.mark.parametrize("case", sorted(p.parent.name for p in LADDERS.glob("*/ladder.json")))
def test_every_recorded_ladder_reaches_its_end(case: str) -> None:
    made = read_ladder(LADDERS / case)
    found = rungs(made)
    assert bool(found) == bool(made.best)
    if not found:
        return
    assert set(found[-1].names) == set(made.best)
    steps = [made.baseline.step_s, *(r.step_s for r in found)]
    for before, rung, after in zip(steps, found, steps[1:], strict=False):
        assert before / rung.speedup == pytest.approx(after)
    assert prod(r.speedup for r in found) == pytest.approx(made.baseline.step_s / steps[-1])
    direct = [t for t in made.trials if not t.against and set(t.names) == set(made.best)]
    if not any(t.purpose in ("final", "patch") for t in direct) or len(found) == 1:
        assert product(found) == pytest.approx(made.speedup, rel=1e-6)
