"""What got worse than the baseline, by more than its limit, and what did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpuscope.analysis.account_types import TERMS
from gpuscope.analysis.compare import IDLE, Difference, row_table
from gpuscope.analysis.operator_families import is_communication
from gpuscope.document.quantities import Bytes, Count, Quantity, Seconds
from gpuscope.document.quantities import Share as OfAll
from gpuscope.document.text import Text, plural
from gpuscope.errors import GpuscopeError, WorkloadError
from gpuscope.guarding.baseline import Baseline, Key
from gpuscope.guarding.facts import LEAST_GAIN, Facts, facts_of
from gpuscope.guarding.history import History, trace
from gpuscope.guarding.settings import COUNTS, SHARES, Guarded, GuardSettings, Limits
from gpuscope.guarding.sources import Commit, Lines, Sources, sources_of

MOST_CAUSES = 3
"""Operators that a regression names."""

LEAST_CHANGE = 0.001
"""Share of a figure below which a change is not shown."""

MOST_LINES = 3
"""Source lines that each of them names."""

FIELDS: Mapping[str, tuple[str, Text, type[Quantity]]] = {
    "step_time": ("step_time_s", Text("step time"), Seconds),
    "launches": ("launches", Text("launches"), Count),
    "peak_memory": ("peak_memory_bytes", Text("peak memory"), Bytes),
    "graph_breaks": ("graph_breaks", Text("graph breaks"), Count),
    "communication": ("communication_bytes", Text("communication"), Bytes),
    "findings": ("findings", Text("new findings"), Count),
}
"""By the name of its limit: the field of `Facts`, the words, the unit."""

Verdict = Literal["ok", "worse", "better", "off"]


@dataclass(frozen=True, slots=True)
class Cause:
    """What made a figure worse.

    Attributes:
        what: an operator, a category of memory, a finding.
        told: by how much, and why where that is known.
        lines: source lines that it comes from; those written since the baseline, then most first.
        commits: of the former.
    """

    what: str
    told: str
    lines: Lines = ()
    commits: Mapping[str, Commit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """One fact held against the baseline.

    Attributes:
        fact: its name in the limits.
        before, now: in the unit of `FIELDS`.
        limit: how much more is allowed: a share, or a count of `COUNTS`; None: it is not guarded.
        verdict: "worse" or "better" by more than the limit, "ok", or "off".
        causes: of a figure that got worse, largest first.
    """

    fact: str
    before: float
    now: float
    limit: float | None
    verdict: Verdict
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """One workload on one device.

    Attributes:
        workload, device: as the settings name them.
        held: one for each fact; () where the baseline does not know it.
        account: by the terms of the step's account: seconds in the baseline (None: not kept
            there), and now.
    """

    workload: str
    device: str
    held: tuple[Held, ...]
    account: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether it got worse, or nothing is there to hold it against."""
        return not self.held or any(each.verdict == "worse" for each in self.held)


@dataclass(frozen=True, slots=True)
class Report:
    """All workloads.

    Attributes:
        judged: by workload and device.
        gone: in the baseline, and not in the settings.
        versions: what differs from the baseline's: (package, then, now).
    """

    judged: tuple[Judged, ...]
    gone: tuple[Key, ...] = ()
    versions: tuple[tuple[str, str, str], ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the guard says no."""
        return any(each.failed for each in self.judged)


Found = dict[Key, "tuple[Facts, Sources]"]


def predict_all(settings: GuardSettings, say: Callable[[str, str], Any] | None = None) -> Found:
    """Predict every workload on its devices.

    Args:
        settings: what to predict.
        say: told the workload and its devices before each.

    Raises:
        WorkloadError: one of them cannot be predicted; says which, and why.
        GpuscopeError: an unknown device.
    """
    from gpuscope import api

    for each in settings.workloads:
        for target in each.on:
            api.resolve_target(target)
    found: Found = {}
    for each in settings.workloads:
        if say is not None:
            say(each.name, ", ".join(each.on))
        found |= _predicted(each)
    return found


def _predicted(each: Guarded) -> Found:
    from gpuscope import api
    from gpuscope.run import Refused

    try:
        runs = api.predict_many(each.run, list(each.on), options=each.options)
    except GpuscopeError as error:
        raise _named(each.name, error.what, error.why, error.next_step) from error
    found: Found = {}
    for target, run in zip(each.on, runs, strict=True):
        if isinstance(run, Refused):
            raise _named(each.name, run.what, run.why, Text("Leave {device} out.", device=target))
        found[each.name, target] = facts_of(run), sources_of(run, each.run)
    return found


def _named(name: str, what: str, why: str, next_step: str) -> WorkloadError:
    told = Text("The workload '{name}' cannot be predicted: {what}", name=name, what=what)
    return WorkloadError(told, why, next_step)


def judge(
    settings: GuardSettings,
    found: Found,
    baseline: Baseline,
    now: Mapping[str, str],
    history: History | None = None,
) -> Report:
    """Hold predictions against a baseline.

    Args:
        settings: limits.
        found: what was predicted.
        baseline: what holds.
        now: versions of what it was predicted with.
        history: asked who wrote the lines of what got worse; None: nobody is.
    """
    limits = {each.name: each.limits for each in settings.workloads}
    judged = [
        _judged(key, baseline.facts.get(key), found[key], limits[key[0]]) for key in sorted(found)
    ]
    for number, key in enumerate(sorted(found) if history is not None else ()):
        if history is not None and judged[number].held and judged[number].failed:
            facts, sources = found[key]
            traced = facts, trace(sources, history)
            judged[number] = _judged(key, baseline.facts[key], traced, limits[key[0]])
    changed = tuple(
        (name, baseline.versions.get(name, ""), now.get(name, ""))
        for name in sorted({*now, *baseline.versions})
        if now.get(name) != baseline.versions.get(name)
    )
    return Report(tuple(judged), tuple(sorted(set(baseline.facts) - set(found))), changed)


def _judged(key: Key, before: Facts | None, found: tuple[Facts, Sources], limits: Limits) -> Judged:
    now, sources = found
    was: Mapping[str, float] = before.account if before else {}
    account: dict[str, tuple[float | None, float]] = {
        term: (was.get(term, 0.0) if was else None, now.account.get(term, 0.0))
        for term in TERMS
        if was.get(term) or now.account.get(term)
    }
    return Judged(*key, _held(before, now, sources, limits), account)


def _held(before: Facts | None, now: Facts, sources: Sources, limits: Limits) -> tuple[Held, ...]:
    if before is None:
        return ()
    held = [_one(name, before, now, limits.get(name)) for name in FIELDS]
    return tuple(
        replace(each, causes=_causes(each.fact, before, now, sources))
        if each.verdict == "worse"
        else each
        for each in held
    )


def _one(name: str, before: Facts, now: Facts, limit: float | None) -> Held:
    if name == "findings":
        was, is_now = 0.0, float(len(new_findings(before, now)))
    else:
        was, is_now = (float(getattr(each, FIELDS[name][0])) for each in (before, now))
    if limit is None:
        return Held(name, was, is_now, None, "off")
    if name == "findings" and _quicker(before, now):
        return Held(name, was, is_now, limit, "ok")
    # Rounding of the shown digits is no change.
    room = limit if name in COUNTS else max(limit * was, 1e-4 * was)
    verdict: Verdict = "worse" if is_now > was + room else "better" if is_now < was - room else "ok"
    return Held(name, was, is_now, limit, verdict)


def _quicker(before: Facts, now: Facts) -> bool:
    """Whether the step is shorter by more than what is held to be equal.

    What is left of a quicker step is a larger share of it: then a finding that was there all along
    passes its threshold, and tells no loss.
    """
    return now.step_time_s < before.step_time_s * (1 - SHARES["step_time"])


def new_findings(before: Facts, now: Facts) -> tuple[str, ...]:
    """Return kinds of findings worth `LEAST_GAIN` of the step that the baseline does not hold."""
    return tuple(
        kind
        for kind, gain in now.findings.items()
        if kind not in before.findings and (gain is None or gain >= LEAST_GAIN)
    )


# -- causes ---------------------------------------------------------------------------------------


def _causes(fact: str, before: Facts, now: Facts, sources: Sources) -> tuple[Cause, ...]:
    if fact == "peak_memory":
        found = _of_memory(before, now, sources)
    elif fact == "graph_breaks":
        breaks = Text("goes back to Python here")
        found = [Cause("torch.compile", breaks, (line,)) for line in sources.breaks]
    elif fact == "findings":
        kinds = new_findings(before, now)
        found = [Cause(kind, *sources.findings[kind]) for kind in kinds]
    else:
        rows = row_table(before.operators, now.operators)
        found = _of_operators(fact, rows, sources)
    return tuple(_at(cause, sources) for cause in found[:MOST_CAUSES])


def _at(cause: Cause, sources: Sources) -> Cause:
    """A cause with its first lines, and who wrote them."""
    lines = cause.lines[:MOST_LINES]
    commits = {line: sources.commits[line] for line in lines if line in sources.commits}
    return replace(cause, lines=lines, commits=commits)


def _of_operators(fact: str, rows: Sequence[Difference], sources: Sources) -> list[Cause]:
    """The operators that grew: in time, else in launches."""
    if fact == "communication":
        rows = [row for row in rows if is_communication(row.label)]
    by_time = fact != "launches"
    size = {
        row.label: row.difference_s if by_time else float(row.b_count - row.a_count) for row in rows
    }
    grown = sorted((row for row in rows if size[row.label] > 0), key=lambda row: -size[row.label])
    whole = sum(size[row.label] for row in grown)
    telling = [row for row in grown if size[row.label] >= 0.05 * whole]
    return [
        Cause(row.label, _grown(row, by_time), sources.lines.get(row.label, ())) for row in telling
    ]


def _grown(row: Difference, by_time: bool) -> Text:
    if not by_time:
        return Text(
            "{now} launches instead of {before}", now=Count(row.b_count), before=Count(row.a_count)
        )
    times = {"before": Seconds(row.a_s), "now": Seconds(row.b_s)}
    if row.label != IDLE and row.a_s <= 0 and row.a_count == 0:
        return plural(
            "{now} in {count} launch, none before",
            "{now} in {count} launches, none before",
            row.b_count,
            now=times["now"],
        )
    if row.reason:
        return Text("{now} instead of {before}: {why}", why=row.reason, **times)
    return Text("{now} instead of {before}", **times)


def _of_memory(before: Facts, now: Facts, sources: Sources) -> list[Cause]:
    grown = sorted(
        ((now.memory[part] - before.memory.get(part, 0), part) for part in now.memory), reverse=True
    )
    return [
        Cause(part, Text("{more} more at the peak", more=Bytes(more)), sources.memory.get(part, ()))
        for more, part in grown
        if more > 0
    ]


def changed(held: Held) -> bool:
    """Whether a figure is another than in the baseline, as far as it is shown."""
    return abs(held.now - held.before) > (0 if held.fact in COUNTS else LEAST_CHANGE * held.before)


def change(held: Held) -> Text:
    """Return how much more or less a figure is: "+12.3 %", "+3"."""
    if held.fact in COUNTS or held.before == 0:
        more = held.now - held.before
        unit = FIELDS[held.fact][2]
        sign = "+" if more > 0 else "−" if more < 0 else "±"
        return Text("{sign}{amount}", sign=sign, amount=unit(abs(more)))
    share = held.now / held.before - 1 if changed(held) else 0.0
    sign = "+" if share > 0 else "−" if share < 0 else "±"
    return Text("{sign}{amount}", sign=sign, amount=OfAll(abs(share)))
