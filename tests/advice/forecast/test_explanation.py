"""Advice told: every part of it, in both languages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny_changes import Tiny, build, half, known, twice

from gpuscope.advice.forecast.advise import advise
from gpuscope.advice.forecast.explanation import added, explained
from gpuscope.errors import UnsupportedError


def _refuse(live):
    raise UnsupportedError("No such thing here.")


@pytest.fixture(scope="module")
def advice():
    changes = (
        Tiny("half", half, numerics="bf16"),
        Tiny("twice", twice),
        Tiny("refuses", _refuse),
        Tiny("far", applies=False),
    )
    with known(*changes):
        yield advise(build)


@pytest.fixture(scope="module")
def told(advice):
    return explained(advice, "train.py:build")


def test_each_part_is_there(told):
    assert [s.title for s in told.sections] == [
        "The best combination",
        "Each change alone",
        "What not to do here",
        "What fails",
        "Not possible or not needed",
    ]
    bars, table = told.sections[0].blocks[:2]
    assert [bar.label for bar in bars.bars][1] == "+ half"
    assert bars.bars[0].parts[0].value > bars.bars[1].parts[0].value
    assert table.rows[1][6] == "bfloat16"
    assert told.sections[2].blocks[0].rows[0][0] == "twice"
    assert told.commands == ("gpuscope optimize train.py:build",)
    assert "half" in told.summary[0]
    assert "twice (0.5" in " ".join(w for w in told.summary)


def test_what_only_holds_of_the_best_is_told(advice):
    base, end = advice.case.run, advice.path[-1]
    run = replace(end.run, assumptions=(*end.run.assumptions, "Only then."))
    changed = replace(advice, path=(*advice.path[:-1], replace(end, run=run)))
    said = list(explained(changed).assumptions)
    assert said[: len(base.assumptions)] == list(base.assumptions)
    assert said[-1] == "With the best combination: Only then."
    assert len(said) == len({*base.assumptions, *run.assumptions})
    nothing = explained(replace(advice, path=()))
    assert list(nothing.assumptions) == list(base.assumptions)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_drawn(told, lang):
    from gpuscope.views.explanation import explanation_document
    from gpuscope.views.explanation_terminal import render_explanation
    from gpuscope.views.terminal import make_console

    console = make_console()
    with console.capture() as taken:
        for part in render_explanation(told, lang):
            console.print(part)
    assert "half" in taken.get()
    assert explanation_document(told)


def test_what_one_set_has_beyond_another():
    assert added(("a", "c"), ("a", "b", "c", "d")) == ("b", "d")
