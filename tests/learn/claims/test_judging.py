"""The rule that makes verdicts: by comparing, in every branch."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuscope.document.text import Text, verbatim
from gpuscope.errors import UnknownNameError
from gpuscope.learn.claims.judging import (
    called,
    cannot_say,
    closeness,
    compared,
    holds,
    round_like,
    same_year,
)
from gpuscope.learn.claims.scales import Sentence
from gpuscope.learn.claims.types import (
    Check,
    Claim,
    Claimed,
    Figure,
    NoFigureError,
    Source,
    Topic,
    Verdict,
)


def _true(value: float, label: str = "") -> Source:
    return lambda: Figure(
        value, verbatim(f"true {value}"), verbatim(label), "catalogue", ("a document",)
    )


def _judge(claimed: Claimed, check: Check, unit: str = "") -> Verdict:
    topic = Topic("test", Text("Test"))
    return Claim("T-1", topic, Text("said"), claimed, unit, check).verdict()


@pytest.mark.parametrize(
    ("claimed", "true", "verdict"),
    [
        (100, 100, "right"),
        (100, 97, "right"),
        (105, 100, "imprecise"),
        (83, 82.58, "right"),
        (3, 3.35, "imprecise"),
        (1.3, 1.3275, "right"),
        (3, 2.97, "right"),
        (2, 1.669, "imprecise"),
        (1, 1.086, "imprecise"),
        (3, 1.75, "wrong"),
        (0, 0.08, "wrong"),
        (0, 0, "right"),
        (5, 0, "wrong"),
    ],
)
def test_closeness(claimed: float, true: float, verdict: str) -> None:
    assert closeness(claimed, true) == verdict


@pytest.mark.parametrize(
    ("value", "example", "rounded"),
    [(82.58, 83, 83), (1039, 900, 1000), (3.349, 3.35, 3.35), (0.0141, 0.014, 0.014)],
)
def test_rounding_to_the_claims_own_digits(value: float, example: float, rounded: float) -> None:
    assert round_like(value, example) == pytest.approx(rounded)


@given(st.floats(1e-3, 1e12), st.floats(0.5, 2))
def test_the_verdict_does_not_depend_on_scale(true: float, factor: float) -> None:
    assume(abs(abs(factor - 1) - 0.02) > 1e-6 and abs(abs(factor - 1) - 0.25) > 1e-6)
    wanted = (
        "right" if abs(factor - 1) < 0.02 else "imprecise" if abs(factor - 1) < 0.25 else "wrong"
    )
    found = closeness(true * factor, true)
    assert found == wanted or (wanted == "imprecise" and found == "right")


def test_a_year_is_right_or_not() -> None:
    assert [same_year(2022, year) for year in (2022, 2023, 2024)] == ["right", "imprecise", "wrong"]
    assert _judge(2022, compared("equals", [_true(2023)]), "year").verdict == "imprecise"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((10.0,), "right"),
        ((11.0,), "imprecise"),
        ((20.0,), "wrong"),
        ((10.0, 10.1), "right"),
        ((10.0, 20.0), "imprecise"),
        ((11.0, 40.0), "imprecise"),
        ((2.0, 40.0), "depends"),
        ((20.0, 40.0), "wrong"),
    ],
)
def test_variants_of_a_value(values: tuple[float, ...], verdict: str) -> None:
    assert _judge(10, compared("equals", [*map(_true, values)])).verdict == verdict


def test_bounds() -> None:
    assert _judge(10, compared("at_least", [_true(12), _true(10)])).verdict == "right"
    assert _judge(10, compared("at_least", [_true(8), _true(12)])).verdict == "imprecise"
    assert _judge(10, compared("at_least", [_true(5), _true(7)])).verdict == "wrong"
    assert _judge(10, compared("at_most", [_true(9)])).verdict == "right"
    assert _judge(10, compared("at_most", [_true(30)])).verdict == "wrong"
    assert _judge(10, compared("at_most", [_true(0)])).verdict == "right"


def test_ranges() -> None:
    assert (
        _judge((10.0, 20.0), compared("inside", [_true(10), _true(15), _true(20)])).verdict
        == "right"
    )
    assert _judge((10.0, 20.0), compared("inside", [_true(15), _true(90)])).verdict == "imprecise"
    assert _judge((10.0, 20.0), compared("inside", [_true(24)])).verdict == "imprecise"
    assert _judge((10.0, 20.0), compared("inside", [_true(90)])).verdict == "wrong"
    assert _judge((10.0, 20.0), compared("inside", [_true(1), _true(90)])).verdict == "depends"
    assert _judge((10.0, 20.0), compared("spans", [_true(10), _true(20)])).verdict == "right"
    assert _judge((10.0, 20.0), compared("spans", [_true(15), _true(40)])).verdict == "imprecise"
    assert _judge((10.0, 20.0), compared("spans", [_true(30), _true(40)])).verdict == "wrong"


def test_the_unit_of_the_claim_counts() -> None:
    found = _judge(2, compared("equals", [_true(2e12)]), "TB/s")
    assert (found.verdict, found.values) == ("right", (2.0,))
    assert found.truth == "2 TB/s"


def test_statements() -> None:
    names, truth = {"n": _true(3)}, Sentence("{n} of them", {})
    assert _judge("x", holds(["n > 1", "n < 5"], names, truth)).verdict == "right"
    assert _judge("x", holds(["n > 1", "n < 2"], names, truth)).verdict == "imprecise"
    assert _judge("x", holds(["n < 1"], names, truth)).verdict == "wrong"
    some = holds(["n > 1", "n < 2"], names, truth, some="depends", sources=("law",))
    found = _judge("x", some)
    assert found.verdict == "depends"
    assert found.truth == "3 of them"
    assert found.evidence.splitlines() == ["n > 1: true", "n < 2: false", "n: true 3"]
    assert found.sources == ("law", "a document")


def test_terms() -> None:
    assert _judge("x", called(["general-purpose computing"], "cuda.purpose")).verdict == "right"
    assert _judge("x", called(["graphics"], "cuda.purpose")).verdict == "wrong"
    kinds = "model_parallelism.kinds"
    assert _judge("x", called(["layers apart"], kinds)).verdict == "imprecise"
    with pytest.raises(UnknownNameError):
        _judge("x", called(["x"], "cuda.purpse"))


def _lacking() -> Figure:
    raise NoFigureError(Text("No source states it."))


@pytest.mark.parametrize(
    "check",
    [
        compared("equals", [_lacking]),
        holds(["n > 1"], {"n": _lacking}, Sentence("", {})),
        cannot_say(Sentence("{n}", {}), {"n": _lacking}),
    ],
)
def test_a_missing_figure_makes_no_verdict(check: Check) -> None:
    found = _judge(1, check)
    assert (found.verdict, found.method, found.values) == ("cannot say", "none", ())
    assert found.evidence == "No source states it."


def test_a_reason_may_hold_figures() -> None:
    found = _judge("x", cannot_say(Sentence("{n} then", {"n": "GB"}), {"n": _true(5e9)}))
    assert found.evidence == "5 GB then"
    assert found.sources == ("a document",)
