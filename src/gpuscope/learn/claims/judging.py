"""Checks: a claim's value held against computed figures.

The rule, the same for all claims: *right* within 2 %, or when the true value, rounded to the
claim's own digits, is the claim's (at most 5 % off); *imprecise* within 25 %; *wrong* beyond. Where
a claim leaves open which variant it means, it is right if it is for all of them, imprecise if for
some, and *depends* if it hits none but true values lie on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import inf

from gpuscope.explain.types import Words
from gpuscope.learn.claims.expression import (
    all_sources,
    evaluate,
    given,
    lines_of,
    readable,
    strongest,
)
from gpuscope.learn.claims.scales import SCALES, both, fill, show
from gpuscope.learn.claims.sourced_facts import terms
from gpuscope.learn.claims.types import (
    Check,
    Claim,
    Figure,
    Judgement,
    NoFigureError,
    Source,
    Verdict,
)

RIGHT = 0.02
"""Relative error up to which a value is right."""

ROUNDED = 0.05
"""Relative error up to which a value that the claim rounded is right."""

IMPRECISE = 0.25
"""Relative error up to which a value is imprecise rather than wrong."""

Pair = tuple[str, str]
"""A text in English and Chinese, as claims write it."""


def closeness(claimed: float, true: float) -> Judgement:
    """Judge one value against another, both in the claim's unit."""
    if claimed == true:
        return "right"
    if true == 0:
        return "wrong"
    error = abs(claimed / true - 1)
    if error <= RIGHT or (error <= ROUNDED and round_like(true, claimed) == claimed):
        return "right"
    return "imprecise" if error <= IMPRECISE else "wrong"


def round_like(value: float, example: float) -> float:
    """Round a value to as many digits as `example` is written with (900: one, 3.35: three)."""
    digits = Decimal(repr(example)).normalize()
    exponent = int(digits.as_tuple().exponent)
    return round(value, -exponent)


def same_year(claimed: float, true: float) -> Judgement:
    """Judge a year: the next one is imprecise, any other wrong."""
    off = abs(claimed - true)
    return "right" if off == 0 else "imprecise" if off <= 1 else "wrong"


def equals(*sources: Source, truth: Pair | None = None) -> Check:
    """The claim states a value; each source is a variant that it may mean."""

    def judge(claim: Claim, values: Sequence[float]) -> Judgement:
        claimed = claim.numbers[0]
        compare = same_year if claim.unit == "year" else closeness
        each = [compare(claimed, value) for value in values]
        if len(set(each)) == 1 and each[0] != "wrong":
            return each[0]
        if "right" in each or "imprecise" in each:
            return "imprecise"
        return "depends" if min(values) < claimed < max(values) else "wrong"

    return _compared(sources, judge, truth)


def at_least(*sources: Source, truth: Pair | None = None) -> Check:
    """The claim says "this much or more"."""
    return _bound(sources, lambda claimed, true: true / claimed, truth)


def at_most(*sources: Source, truth: Pair | None = None) -> Check:
    """The claim says "this much or less"."""
    return _bound(sources, lambda claimed, true: claimed / true if true else inf, truth)


def _bound(
    sources: Sequence[Source], reach: Callable[[float, float], float], truth: Pair | None
) -> Check:
    def judge(claim: Claim, values: Sequence[float]) -> Judgement:
        reached = [reach(claim.numbers[0], value) for value in values]
        if min(reached) >= 1 - RIGHT:
            return "right"
        return "imprecise" if max(reached) >= 1 - IMPRECISE else "wrong"

    return _compared(sources, judge, truth)


def inside(*sources: Source, truth: Pair | None = None) -> Check:
    """The claim states a range (low, high) in which each source should lie."""

    def judge(claim: Claim, values: Sequence[float]) -> Judgement:
        low, high = claim.numbers
        each = [low * (1 - RIGHT) <= value <= high * (1 + RIGHT) for value in values]
        if all(each):
            return "right"
        if any(each):
            return "imprecise"
        if min(values) < low and high < max(values):
            return "depends"
        near = any(low * (1 - IMPRECISE) <= v <= high * (1 + IMPRECISE) for v in values)
        return "imprecise" if near else "wrong"

    return _compared(sources, judge, truth)


def spans(low: Source, high: Source, truth: Pair | None = None) -> Check:
    """The claim states a range (low, high); both its ends should be the true ones."""

    def judge(claim: Claim, values: Sequence[float]) -> Judgement:
        each = {closeness(c, v) for c, v in zip(claim.numbers, values, strict=True)}
        if each == {"right"}:
            return "right"
        overlap = claim.numbers[0] <= values[1] and values[0] <= claim.numbers[1]
        return "imprecise" if overlap else "wrong"

    return _compared((low, high), judge, truth)


def _compared(
    sources: Sequence[Source],
    judge: Callable[[Claim, Sequence[float]], Judgement],
    truth: Pair | None,
) -> Check:
    def check(claim: Claim) -> Verdict:
        try:
            figures = [source() for source in sources]
        except NoFigureError as error:
            return _missing(error)
        values = tuple(f.value / SCALES[claim.unit].size for f in figures)
        names = {f"v{i}": f for i, f in enumerate(figures)}
        words = _variants(figures, claim.unit)
        if truth is not None:
            words = fill(Words(*truth), {name: f.value for name, f in names.items()})
        return Verdict(
            judge(claim, values), words, _joined(_told(figures, claim.unit)),
            strongest(names, "catalogue"), all_sources(names), values,
        )  # fmt: skip

    return check


def _variants(figures: Sequence[Figure], unit: str) -> Words:
    """The true value, or that of each variant with its name; equal ones told once."""
    if len({f.value for f in figures}) == 1:
        return both(figures[0].value, unit)
    en = [_named(f.label.en, show(f.value, unit, "en"), ": ") for f in figures]
    zh = [_named(f.label.zh, show(f.value, unit, "zh"), "：") for f in figures]
    return Words("; ".join(dict.fromkeys(en)), "；".join(dict.fromkeys(zh)))


def _named(label: str, text: str, colon: str) -> str:
    return f"{label}{colon}{text}" if label else text


def _told(figures: Sequence[Figure], unit: str) -> list[Words]:
    """Lines of each variant; a formula carries the variant's name."""
    told = []
    for figure in figures:
        first, *rest = lines_of("", figure, unit)
        if figure.unit is not None and figure.label.en:
            first = Words(f"{figure.label.en}: {first.en}", f"{figure.label.zh}：{first.zh}")
        told += [first, *rest]
    return told


def _joined(lines: Sequence[Words]) -> Words:
    """Lines as one text, each told once."""
    kept = list(dict.fromkeys(lines))
    return Words("\n".join(p.en for p in kept), "\n".join(p.zh for p in kept))


def holds(
    *conditions: str,
    truth: Pair,
    some: Judgement = "imprecise",
    sources: tuple[str, ...] = (),
    also: Mapping[str, Source | float] | None = None,
    **names: Source | float,
) -> Check:
    """The claim is a statement; it is right if all conditions hold, wrong if none does.

    Args:
        conditions: expressions (`gpuscope.learn.claims.expression`) that are true or false.
        truth: what is true, with {names} filled in, e.g. "{rate:GB/s}".
        some: the verdict if some conditions hold and some do not.
        sources: documents behind the conditions themselves.
        also: more names, where a loop makes them.
        names: what the names stand for.
    """

    def check(claim: Claim) -> Verdict:
        try:
            figures = given({**names, **(also or {})})
        except NoFigureError as error:
            return _missing(error)
        values = {name: figure.value for name, figure in figures.items()}
        found = [bool(evaluate(condition, values)) for condition in conditions]
        judgement: Judgement = "right" if all(found) else some if any(found) else "wrong"
        return Verdict(
            judgement, fill(Words(*truth), values), _outcomes(conditions, found, figures),
            strongest(figures, "catalogue"), all_sources(figures, sources),
        )  # fmt: skip

    return check


def _outcomes(
    conditions: Sequence[str], found: Sequence[bool], figures: Mapping[str, Figure]
) -> Words:
    lines = []
    for condition, true in zip(conditions, found, strict=True):
        shown = readable(condition)
        said = ("true", "成立") if true else ("false", "不成立")
        lines.append(Words(f"{shown}: {said[0]}", f"{shown}：{said[1]}"))
    for name, figure in figures.items():
        lines += lines_of(name, figure)
    return _joined(lines)


def called(*claimed: str, by: str) -> Check:
    """The claim gives something a name or a kind; right if the document names just these.

    Args:
        claimed: what the claim says, in the terms of `sourced_facts.TERMS`.
        by: the entry there. Imprecise if the document names more kinds, wrong if others.
    """

    def check(claim: Claim) -> Verdict:
        stated = terms(by)
        said = frozenset(claimed)
        judgement: Judgement = (
            "right" if said == stated.terms else "imprecise" if said & stated.terms else "wrong"
        )
        truth = Words(stated.en[:1].upper() + stated.en[1:], stated.zh)
        found, asked = ", ".join(sorted(stated.terms)), ", ".join(sorted(said))
        evidence = Words(
            f"The document says: {found}; the claim: {asked}.", f"文献记载：{stated.zh}。"
        )
        return Verdict(judgement, truth, evidence, "catalogue", (stated.source,))

    return check


def _missing(error: NoFigureError) -> Verdict:
    """A figure that the check needs is not to be had."""
    return Verdict("cannot say", None, error.words, "none")


def cannot_say(en: str, zh: str, **names: Source | float) -> Check:
    """The claim cannot be judged: says why, with {names} filled in where a figure helps."""

    def check(claim: Claim) -> Verdict:
        try:
            figures = given(names)
        except NoFigureError as error:
            return _missing(error)
        evidence = fill(Words(en, zh), {name: f.value for name, f in figures.items()})
        return Verdict("cannot say", None, evidence, "none", all_sources(figures))

    return check
