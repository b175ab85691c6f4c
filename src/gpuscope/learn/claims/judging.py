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
from types import MappingProxyType

from gpuscope.document.text import Text, capital, extracted, joined
from gpuscope.learn.claims.expression import (
    all_sources,
    computed,
    evaluate,
    lines_of,
    readable,
    strongest,
)
from gpuscope.learn.claims.scales import SCALES, Sentence, in_unit
from gpuscope.learn.claims.sourced_facts import terms
from gpuscope.learn.claims.types import Check, Claim, Figure, Judgement, Source, Verdict

RIGHT = 0.02
"""Relative error up to which a value is right."""

ROUNDED = 0.05
"""Relative error up to which a value that the claim rounded is right."""

IMPRECISE = 0.25
"""Relative error up to which a value is imprecise rather than wrong."""


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


def equals(claim: Claim, values: Sequence[float]) -> Judgement:
    """The claim states a value; each true one is a variant that it may mean."""
    claimed = claim.numbers[0]
    compare = same_year if claim.unit == "year" else closeness
    each = [compare(claimed, value) for value in values]
    if len(set(each)) == 1 and each[0] != "wrong":
        return each[0]
    if "right" in each or "imprecise" in each:
        return "imprecise"
    return "depends" if min(values) < claimed < max(values) else "wrong"


def at_least(claim: Claim, values: Sequence[float]) -> Judgement:
    """The claim says "this much or more"."""
    return _reached([value / claim.numbers[0] for value in values])


def at_most(claim: Claim, values: Sequence[float]) -> Judgement:
    """The claim says "this much or less"."""
    return _reached([claim.numbers[0] / value if value else inf for value in values])


def _reached(shares: Sequence[float]) -> Judgement:
    if min(shares) >= 1 - RIGHT:
        return "right"
    return "imprecise" if max(shares) >= 1 - IMPRECISE else "wrong"


def inside(claim: Claim, values: Sequence[float]) -> Judgement:
    """The claim states a range (low, high) in which each true value should lie."""
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


def spans(claim: Claim, values: Sequence[float]) -> Judgement:
    """The claim states a range (low, high); both its ends should be the true ones."""
    each = {closeness(c, v) for c, v in zip(claim.numbers, values, strict=True)}
    if each == {"right"}:
        return "right"
    overlap = claim.numbers[0] <= values[1] and values[0] <= claim.numbers[1]
    return "imprecise" if overlap else "wrong"


COMPARISONS: Mapping[str, Callable[[Claim, Sequence[float]], Judgement]] = {
    each.__name__: each for each in (equals, at_least, at_most, inside, spans)
}
"""How a claim that states numbers is judged, by the name that its table gives."""


def compared(
    comparison: str,
    sources: Sequence[Source],
    truth: Sentence | None = None,
    names: Mapping[str, Source] = MappingProxyType({}),
) -> Check:
    """The claim states numbers.

    Args:
        comparison: a key of `COMPARISONS`.
        sources: the true values.
        truth: what is true, where the values do not say it all; they are {v0}, {v1}, ...
        names: more names of `truth`.
    """

    def check(claim: Claim) -> Verdict:
        figures = {f"v{i}": source() for i, source in enumerate(sources)}
        found = list(figures.values())
        values = tuple(f.value / SCALES[claim.unit].size for f in found)
        return Verdict(
            COMPARISONS[comparison](claim, values),
            _filled(truth, {**figures, **computed(names)})
            if truth
            else _variants(found, claim.unit),
            _told_once(_lines(found, claim.unit)),
            strongest(figures, "catalogue"),
            all_sources(figures),
            values,
        )

    return check


def _filled(sentence: Sentence, figures: Mapping[str, Figure]) -> Text:
    return sentence.filled({name: f.value for name, f in figures.items()})


def _variants(figures: Sequence[Figure], unit: str) -> Text:
    """The true value, or that of each variant with its name; equal ones told once."""
    if len({f.value for f in figures}) == 1:
        return in_unit(figures[0].value, unit)
    named = [joined([f.label, in_unit(f.value, unit)], ": ") for f in figures]
    return joined(dict.fromkeys(named), "; ")


def _lines(figures: Sequence[Figure], unit: str) -> list[Text]:
    """Lines of each variant; a formula carries the variant's name."""
    lines = []
    for each in figures:
        first, *rest = lines_of("", each, unit)
        if each.unit is not None:
            first = joined([each.label, first], ": ")
        lines += [first, *rest]
    return lines


def _told_once(lines: Sequence[Text]) -> Text:
    return joined(dict.fromkeys(lines), "\n")


def holds(
    conditions: Sequence[str],
    names: Mapping[str, Source],
    truth: Sentence,
    some: Judgement = "imprecise",
    sources: tuple[str, ...] = (),
) -> Check:
    """The claim is a statement; it is right if all conditions hold, wrong if none does.

    Args:
        conditions: expressions (`gpuscope.learn.claims.expression`) that are true or false.
        names: what their names stand for.
        truth: what is true.
        some: the verdict if some conditions hold and some do not.
        sources: documents behind the conditions themselves.
    """

    def check(claim: Claim) -> Verdict:
        figures = computed(names)
        values = {name: figure.value for name, figure in figures.items()}
        found = [bool(evaluate(condition, values)) for condition in conditions]
        judgement: Judgement = "right" if all(found) else some if any(found) else "wrong"
        return Verdict(
            judgement,
            _filled(truth, figures),
            _outcomes(conditions, found, figures),
            strongest(figures, "catalogue"),
            all_sources(figures, sources),
        )

    return check


def _outcomes(
    conditions: Sequence[str], found: Sequence[bool], figures: Mapping[str, Figure]
) -> Text:
    lines = []
    for condition, true in zip(conditions, found, strict=True):
        outcome = Text("true") if true else Text("false")
        lines.append(joined([readable(condition), outcome], ": "))
    for name, each in figures.items():
        lines += lines_of(name, each)
    return _told_once(lines)


def called(claimed: Sequence[str], by: str) -> Check:
    """The claim gives something a name or a kind; right if the document names just these.

    Args:
        claimed: what the claim says, in the terms of `sourced_facts`.
        by: the entry there. Imprecise if the document names more kinds, wrong if others.
    """

    def check(claim: Claim) -> Verdict:
        stated, said = terms(by), set(claimed)
        named = set(stated.names)
        judgement: Judgement = (
            "right" if said == named else "imprecise" if said & named else "wrong"
        )
        about = extracted(stated.about)
        evidence = Text(
            "The document says: {found}; the claim: {asked}.",
            found=", ".join(sorted(named)),
            asked=", ".join(sorted(said)),
            stated=about,
        )
        return Verdict(judgement, capital(about), evidence, "catalogue", (stated.source,))

    return check


def cannot_say(why: Sentence, names: Mapping[str, Source]) -> Check:
    """The claim cannot be judged: says why, with {names} filled in where a figure helps."""

    def check(claim: Claim) -> Verdict:
        figures = computed(names)
        evidence = _filled(why, figures)
        return Verdict("cannot say", None, evidence, "none", all_sources(figures))

    return check
