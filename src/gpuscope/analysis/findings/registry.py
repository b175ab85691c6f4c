"""The findings, one file each: a file in this folder registers itself with `@finding`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuscope.analysis.explained import Ledger, with_gains
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.recorded_types import QUESTIONS, allowed
from gpuscope.analysis.types import Finding
from gpuscope.document.text import Text
from gpuscope.registry import Registry

Finder = Callable[[Facts], Finding | None]

FIRST = ("does_not_fit", "untrusted_trace")
"""What makes a run impossible or doubtful comes before every gain."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A finding that is known.

    Attributes:
        kind: stable word for `Finding.kind`; several rules may share one.
        needs: the question that a recording must answer before it may be given (`QUESTIONS`); ""
            where it rests on nothing that a recording can lack, or is of predictions alone.
        order: of equal gains the lowest comes first.
        find: looks at the facts and returns a finding, or None.
        kinds: other kinds that `find` may return, in which case theirs is the need.
    """

    kind: str
    needs: str
    order: int
    find: Finder
    kinds: tuple[str, ...] = ()


RULES = Registry[Rule](Text("finding"), "gpuscope.analysis.findings")


def finding(
    kind: str, *, needs: str, order: int = 100, kinds: tuple[str, ...] = ()
) -> Callable[[Finder], Finder]:
    """Register a function as a finding; arguments as `Rule`'s.

    Raises:
        ValueError: another one of that function's name is registered, there is no such question,
            or rules of one kind need different things.
    """
    if needs and needs not in QUESTIONS:
        raise ValueError(f"'{needs}' is no question that a recording answers")

    def register(find: Finder) -> Finder:
        RULES.add(find.__name__, Rule(kind, needs, order, find, kinds))
        return find

    return register


def needs_of(kind: str) -> str:
    """Return the question that a recording must answer before a kind may be given.

    Raises:
        ValueError: no rule is of that kind.
    """
    for rule in RULES:
        if rule.kind == kind:
            return rule.needs
    raise ValueError(f"'{kind}' is not a kind of finding")


def finding_kinds() -> tuple[str, ...]:
    """Return the stable words of all kinds, in the order of equal gains."""
    rules = sorted(RULES, key=lambda rule: rule.order)
    return tuple(dict.fromkeys(kind for rule in rules for kind in (rule.kind, *rule.kinds)))


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Return what applies, largest gain first, no time in the gains of two (see `with_gains`).

    What makes the run impossible (it does not fit) comes before everything, then that a recording
    cannot be trusted; findings without a gain come last. A finding that rests on what the recording
    cannot tell is not given.

    Raises:
        ValueError: a rule returned a kind that it does not name.
    """
    found: list[tuple[int, Finding]] = []
    for rule in RULES:
        result = rule.find(facts)
        if result is None:
            continue
        if result.kind not in (rule.kind, *rule.kinds):
            raise ValueError(f"'{result.kind}' is not a kind of finding of '{rule.kind}'")
        if allowed(facts.trust, needs_of(result.kind)):
            found.append((rule.order, result))
    found.sort(key=lambda one: one[0])
    ledger = Ledger.of(facts.losses, facts.rows, facts.step, facts.critical_path)
    return largest_first(with_gains([result for _, result in found], ledger))


def largest_first(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings as they are listed, equals in the order that they have.

    `FIRST` leads; then the largest gain, but a finding before those that gain nothing without it.
    """

    def key(each: Finding) -> tuple[int, float, bool]:
        first = FIRST.index(each.kind) if each.kind in FIRST else len(FIRST)
        held = (other for other in found if other.kind in each.before)
        gain_s = max(one.max_gain_s or 0.0 for one in (each, *held))
        return first, -gain_s, not each.before

    return tuple(sorted(found, key=key))
