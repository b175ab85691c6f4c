"""The account of a step: a waterfall from its best possible time to the time that it takes."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.analysis.account_types import Account, AccountTerm, TermKey
from gpuscope.document.blocks import Bar, Bars, Part, Role
from gpuscope.document.text import Text, sentences
from gpuscope.run import Run
from gpuscope.views.run_figures.shares import percent

TITLE = Text("From the best possible time to the step")

TERM_WORDS: Mapping[TermKey, Text] = {
    "peak": Text("best possible"),
    "clock": Text("clock below its boost"),
    "library": Text("library below the roofline"),
    "tails": Text("idle in last waves"),
    "unknown": Text("kernels without a model"),
    "pointwise": Text("pointwise and copies"),
    "transfers": Text("copies to and from the host"),
    "communication": Text("communication"),
    "waiting": Text("waiting for other ranks"),
    "bubble": Text("pipeline bubble"),
    "idle": Text("device idle"),
}
"""What each term of an account is called."""

_ROLES: Mapping[TermKey, Role] = {
    "peak": "good",
    "clock": "launch",
    "library": "compute",
    "tails": "tail",
    "unknown": "other",
    "pointwise": "memory",
    "transfers": "copy",
    "communication": "communication",
    "waiting": "waiting",
    "bubble": "waste",
    "idle": "idle",
}

_NOTE = Text(
    "Best possible: the work of matrix kernels at the datasheet's rates, and what the rest must "
    "read and write at the least. Each row adds what is lost; together they are the step. "
    "Communication and copies count where no kernel runs beside them."
)

_NOT_TOLD = Text(
    "At which clock the kernels ran is not recorded: what it loses is in the library's row."
)


def account(run: Run) -> Bars | None:
    """Return the account of a run's step; None where it has none. Terms of 0 are left out."""
    found = run.analysis.account
    if found is None:
        return None
    rows = [_bar(term, found) for term in shown_terms(found)]
    step = Text("the step")
    rows.append(Bar(step, (Part(step, found.step_s, "reference"),), percent(1.0, 1.0)))
    clock = next(term.time_s for term in found.terms if term.key == "clock")
    told = found.best_s is None or clock is not None
    many = len(run.analysis.time) > 1 or run.analysis.job is not None
    whose = Text("These are the times of rank {rank}.", rank=found.rank) if many else None
    note = sentences(_NOTE, whose, None if told else _NOT_TOLD)
    return Bars(TITLE, "s", tuple(rows), note=note)


def shown_terms(found: Account) -> list[AccountTerm]:
    """Return the terms that have a bar: those of 0 are left out."""
    return [term for term in found.terms if term.time_s or _missed(term.key, found)]


def _bar(term: AccountTerm, found: Account) -> Bar:
    name = TERM_WORDS[term.key]
    if term.time_s is None:
        return Bar(name, (), Text("not available"), term.from_s)
    share = percent(term.time_s, found.step_s)
    return Bar(name, (Part(name, term.time_s, _ROLES[term.key]),), share, term.from_s)


def _missed(key: TermKey, found: Account) -> bool:
    """Whether it is worth saying that a term is not known: the best time is."""
    return key == "peak" and found.best_s is None
