"""What got worse than the baseline, by more than its limit, and what did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuscope.analysis.compare import IDLE, Difference, row_table
from gpuscope.document.quantities import Bytes, Count, Quantity, Seconds
from gpuscope.document.quantities import Share as OfAll
from gpuscope.document.text import Text, plural
from gpuscope.errors import GpuscopeError, WorkloadError
from gpuscope.guarding.baseline import Baseline, Key
from gpuscope.guarding.facts import LEAST_GAIN, Facts, Sources, facts_of, sources_of
from gpuscope.guarding.settings import COUNTS, SHARES, Guarded, GuardSettings, Limits

MOST_CAUSES = 3
"""Operators that a regression names."""

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
        lines: source lines that it comes from, most first.
    """

    what: str
    told: str
    lines: tuple[str, ...] = ()


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
    """

    workload: str
    device: str
    held: tuple[Held, ...]

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
    settings: GuardSettings, found: Found, baseline: Baseline, now: Mapping[str, str]
) -> Report:
    """Hold predictions against a baseline.

    Args:
        settings: limits.
        found: what was predicted.
        baseline: what holds.
        now: versions of what it was predicted with.
    """
    limits = {each.name: each.limits for each in settings.workloads}
    judged = tuple(
        Judged(*key, _held(baseline.facts.get(key), *found[key], limits[key[0]]))
        for key in sorted(found)
    )
    changed = tuple(
        (name, baseline.versions.get(name, ""), now.get(name, ""))
        for name in sorted({*now, *baseline.versions})
        if now.get(name) != baseline.versions.get(name)
    )
    return Report(judged, tuple(sorted(set(baseline.facts) - set(found))), changed)


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
        return _of_memory(before, now, sources)
    if fact == "graph_breaks":
        return tuple(
            Cause("torch.compile", Text("goes back to Python here"), (line,))
            for line in dict.fromkeys(sources.breaks)
        )[:MOST_CAUSES]
    if fact == "findings":
        return tuple(
            Cause(kind, title, lines[:MOST_LINES])
            for kind in new_findings(before, now)
            for title, lines in (sources.findings[kind],)
        )
    rows = row_table(before.operators, now.operators)
    return _of_operators(fact, rows, sources)


def _of_operators(fact: str, rows: Sequence[Difference], sources: Sources) -> tuple[Cause, ...]:
    """The operators that grew: in time, else in launches."""
    if fact == "communication":
        rows = [row for row in rows if "c10d" in row.label or "fsdp" in row.label]
    by_time = fact != "launches"
    size = {
        row.label: row.difference_s if by_time else float(row.b_count - row.a_count) for row in rows
    }
    grown = sorted((row for row in rows if size[row.label] > 0), key=lambda row: -size[row.label])
    whole = sum(size[row.label] for row in grown)
    telling = [row for row in grown if size[row.label] >= 0.05 * whole][:MOST_CAUSES]
    return tuple(
        Cause(row.label, _grown(row, by_time), sources.lines.get(row.label, ())[:MOST_LINES])
        for row in telling
    )


def _grown(row: Difference, by_time: bool) -> Text:
    if not by_time:
        more = row.b_count - row.a_count
        return plural(
            "{count} more launch (was {before})",
            "{count} more launches (was {before})",
            more,
            before=row.a_count,
        )
    times = {"before": Seconds(row.a_s), "now": Seconds(row.b_s)}
    if row.label != IDLE and row.a_s <= 0 and row.a_count == 0:
        return Text("{now}; the baseline has none of it", now=times["now"])
    if row.reason:
        return Text("{now} instead of {before}: {why}", why=row.reason, **times)
    return Text("{now} instead of {before}", **times)


def _of_memory(before: Facts, now: Facts, sources: Sources) -> tuple[Cause, ...]:
    grown = sorted(
        ((now.memory[part] - before.memory.get(part, 0), part) for part in now.memory), reverse=True
    )
    holders = Text("largest holders: {names}", names=", ".join(sources.holders))
    causes = [
        Cause(part, Text("{more} more at the peak", more=Bytes(more)))
        for more, part in grown[:MOST_CAUSES]
        if more > 0
    ]
    if causes and sources.holders:
        causes[0] = replace(
            causes[0], told=Text("{what}; {holders}", what=causes[0].told, holders=holders)
        )
    return tuple(causes)


def change(held: Held) -> Text:
    """Return how much more or less a figure is: "+12.3 %", "+3"."""
    if held.fact in COUNTS or held.before == 0:
        more = held.now - held.before
        unit = FIELDS[held.fact][2]
        sign = "+" if more > 0 else "−" if more < 0 else "±"
        return Text("{sign}{amount}", sign=sign, amount=unit(abs(more)))
    share = held.now / held.before - 1
    sign = "+" if share > 0 else "−" if share < 0 else "±"
    return Text("{sign}{amount}", sign=sign, amount=OfAll(abs(share)))
