"""`compare`: where two runs differ in step time, and why; rows add up to the whole difference.

Operators are aligned by family (`operator_families`), since a recording and a capture name them
differently; modules by their path. Where both runs were recorded, the kernels that an operator
really ran tell whether the library chose another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.analysis.breakdown import IDLE_PREFIX, MOVING, WAITING
from gpuscope.analysis.call_tree import CallDifference, call_tree
from gpuscope.analysis.class_words import LIMITERS, class_words
from gpuscope.analysis.operator_families import operator_family
from gpuscope.analysis.symbols import short_symbol
from gpuscope.analysis.types import Analysis, Share
from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import Number, Percent, Seconds
from gpuscope.document.text import Text, joined
from gpuscope.timeline.types import DEVICE_KINDS, Timeline

if TYPE_CHECKING:
    from gpuscope.run import Run

IDLE = "idle"
"""Label of the row that holds all idle time in the tables by kind and by operator."""

WHOLE_MODEL = "(model)"
"""Label of what belongs to the model itself and to none of its parts."""

LARGE = 0.05
"""A row explains itself where it holds at least this share of all differences together."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One row: what a class, kind or operator takes in each run.

    Attributes:
        label: as in the breakdown.
        a_s, b_s: seconds per step in each run; 0 where it does not occur.
        difference_s: b_s - a_s; negative where b is faster.
        a_count, b_count: device launches per step.
        reason: why they differ, in words; "" where it is not known.
    """

    label: str
    a_s: float
    b_s: float
    difference_s: float
    a_count: int
    b_count: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side. The rows of each table add up to `difference_s`.

    Attributes:
        a, b: names of the runs, as far as they differ ("NVIDIA H100", "NVIDIA H200").
        a_s, b_s: their step times.
        difference_s: b_s - a_s.
        speedup: a_s / b_s, above 1 where b is faster; None where b takes no time, or where one is
            a step and the other a whole recording.
        classes, kinds, operators, phases, modules: largest difference first; `phases` and
            `modules` are empty where a run does not know them (of modules: their parts). A
            module's row is what none of its children explains.
        tree: modules with all that they call, where they differ, depth first; does not add up.
        summary: one sentence.
    """

    a: str
    b: str
    a_s: float
    b_s: float
    difference_s: float
    speedup: float | None
    classes: tuple[Difference, ...]
    kinds: tuple[Difference, ...]
    operators: tuple[Difference, ...]
    phases: tuple[Difference, ...]
    summary: str
    modules: tuple[Difference, ...] = ()
    tree: tuple[CallDifference, ...] = ()

    def __repr__(self) -> str:
        times = f"{Seconds(self.a_s)} and {Seconds(self.b_s)}"
        faster = None if self.speedup is None else f"{self.speedup:.3g}x"
        return short_repr(self, f"{self.a} and {self.b}", times, faster)


def compare(a: Run, b: Run) -> Comparison:
    """Attribute the difference in step time between two runs.

    Either may be predicted or measured. Step times are those of the analyses, so that the rows of
    every table add up to the difference.

    Raises:
        InvalidValueError: one is the prediction of a graph, the other a profile of another graph.
    """
    from gpuscope.analysis.same_graph import check_same_graph

    check_same_graph(a, b)
    one, two = a.analysis, b.analysis
    names = _names(a, b)
    difference = two.step_s - one.step_s
    classes = row_table(*_alike(one.classes, two.classes))
    alike = of_one_step(a) == of_one_step(b)
    speedup = one.step_s / two.step_s if alike and two.step_s > 0 else None
    return Comparison(
        a=names[0],
        b=names[1],
        a_s=one.step_s,
        b_s=two.step_s,
        difference_s=difference,
        speedup=speedup,
        classes=classes,
        kinds=row_table(_with_idle(one, one.kinds), _with_idle(two, two.kinds)),
        operators=_operators(a, b),
        phases=_phases(one, two),
        modules=_modules(one, two),
        tree=_tree(one, two),
        summary=_summary(names, one.step_s, two.step_s, classes)
        if alike
        else _not_alike(names, a, b),
    )


def of_one_step(run: Run) -> bool:
    """Return whether a run's time is of one step.

    Else it is of a whole recording in which no step is marked or found.
    """
    recorded = run.origin == "measured" and run.measurement is None and bool(run.timeline.sources)
    return not recorded or bool(run.timeline.steps)


def _not_alike(names: tuple[Text, Text], a: Run, b: Run) -> Text:
    """Why a step and a whole recording are not held against each other."""
    whole, step = (names[1], names[0]) if of_one_step(a) else (names[0], names[1])
    time = Seconds((b if of_one_step(a) else a).analysis.step_s)
    return Text(
        "{whole} is a whole recording of {time} in which no step is marked or found, {step} is one "
        "step: which is faster cannot be told.",
        whole=whole,
        time=time,
        step=step,
    )


def _operators(a: Run, b: Run) -> tuple[Difference, ...]:
    """Operators side by side, by family, with the kernel that each run chose."""
    one, two = a.analysis, b.analysis
    rows = row_table(operator_shares(one), operator_shares(two))
    if a.timeline.recorded is None or b.timeline.recorded is None:
        return rows
    chosen = chosen_kernels(a.timeline), chosen_kernels(b.timeline)
    least = LARGE * sum(abs(row.difference_s) for row in rows)
    return tuple(
        _with_kernel(row, *(each.get(row.label, "") for each in chosen))
        if abs(row.difference_s) >= least
        else row
        for row in rows
    )


def _with_kernel(row: Difference, first: str, second: str) -> Difference:
    """Say that another kernel ran, where one did."""
    if not first or not second or first == second:
        return row
    names = short_symbol(first), short_symbol(second)
    if names[0] == names[1]:
        return row
    return replace(
        row, reason=Text("another kernel: {now} instead of {before}", now=names[1], before=names[0])
    )


def _by_family(shares: Sequence[Share]) -> tuple[Share, ...]:
    """Join operators that are one under different names; what limits is the longest's."""
    families: dict[str, Share] = {}
    for share in sorted(shares, key=lambda share: -share.time_s):
        label = operator_family(share.label)
        known = families.get(label)
        families[label] = replace(share, label=label) if known is None else _sum(known, share)
    return tuple(families.values())


def _sum(one: Share, other: Share) -> Share:
    both_known = one.best_s is not None and other.best_s is not None
    return replace(
        one,
        time_s=one.time_s + other.time_s,
        count=one.count + other.count,
        flops=one.flops + other.flops,
        moved_bytes=one.moved_bytes + other.moved_bytes,
        best_s=(one.best_s or 0.0) + (other.best_s or 0.0) if both_known else None,
    )


def chosen_kernels(timeline: Timeline) -> dict[str, str]:
    """Return the kernel that takes most of the time of each operator family, by family."""
    events = timeline.events
    rows = np.flatnonzero((events.kind < DEVICE_KINDS) & (events.op >= 0))
    pairs = events.op[rows] * len(timeline.names) + events.name[rows]
    keys, at = np.unique(pairs, return_inverse=True)
    times = np.bincount(at, weights=events.duration_ns[rows])
    spent: dict[str, dict[str, float]] = {}
    for key, time in zip(keys.tolist(), times.tolist(), strict=True):
        op, name = divmod(key, len(timeline.names))
        family = operator_family(getattr(timeline.ops[op], "name", ""))
        kernels = spent.setdefault(family, {})
        kernels[timeline.names[name]] = kernels.get(timeline.names[name], 0.0) + time
    return {family: max(kernels, key=lambda k: kernels[k]) for family, kernels in spent.items()}


def _modules(one: Analysis, two: Analysis) -> tuple[Difference, ...]:
    """Modules side by side by path; empty where a run does not know its modules.

    A recording without marks of modules has one row for the whole model: held against the parts
    of the other's, it would read as if they all had gone.
    """
    if not (_knows_parts(one) and _knows_parts(two)):
        return ()
    return row_table(_module_shares(one), _module_shares(two))


def _tree(one: Analysis, two: Analysis) -> tuple[CallDifference, ...]:
    """The modules that differ with all that they call; empty where a run does not know them."""
    if not (_knows_parts(one) and _knows_parts(two)):
        return ()
    return call_tree(one.modules, two.modules, max(one.step_s, two.step_s))


def _knows_parts(analysis: Analysis) -> bool:
    """Whether there are modules beside the model itself and "(optimizer)"."""
    return any(module.path and not module.path.startswith("(") for module in analysis.modules)


def _module_shares(analysis: Analysis) -> tuple[Share, ...]:
    shares: dict[str, Share] = {}
    for module in analysis.modules:
        label = module.path or WHOLE_MODEL
        share = Share(label, module.self_s, module.count)
        shares[label] = _sum(shares[label], share) if label in shares else share
    return _with_idle(analysis, tuple(shares.values()))


def _phases(one: Analysis, two: Analysis) -> tuple[Difference, ...]:
    """Phases side by side; empty where a run does not know its phases."""
    if not one.phases or not two.phases:
        return ()
    return row_table(_with_idle(one, one.phases), _with_idle(two, two.phases))


def _names(a: Run, b: Run) -> tuple[Text, Text]:
    """Name both runs by what tells them apart.

    That is the workload, the device, predicted or measured.
    """
    parts = [(a.name, b.name), (a.target, b.target), (_ORIGINS[a.origin], _ORIGINS[b.origin])]
    differing = [pair for pair in parts if pair[0] != pair[1]] or parts[:1]
    first, second = zip(*differing, strict=True)
    return joined(first), joined(second)


def _with_idle(analysis: Analysis, shares: Sequence[Share]) -> tuple[Share, ...]:
    """Add what the device rows leave of the step: idle time."""
    rest = analysis.step_s - sum(share.time_s for share in shares)
    return (*shares, Share(IDLE, rest))


def _alike(a: Sequence[Share], b: Sequence[Share]) -> tuple[Sequence[Share], Sequence[Share]]:
    """Join transfer and waiting of communication again, unless both runs tell them apart."""
    apart = [any(share.label in (WAITING, MOVING) for share in shares) for shares in (a, b)]
    return (a, b) if all(apart) else (_joined(a), _joined(b))


def _joined(shares: Sequence[Share]) -> tuple[Share, ...]:
    parts = [share for share in shares if share.label in (WAITING, MOVING)]
    if not parts:
        return tuple(shares)
    whole = replace(parts[0], label="communication", time_s=sum(share.time_s for share in parts))
    return (*(share for share in shares if share not in parts), whole)


def operator_shares(analysis: Analysis) -> tuple[Share, ...]:
    """Return a step by operator family, idle time included: the rows add up to it."""
    return _with_idle(analysis, _by_family(analysis.operators))


def row_table(a: Sequence[Share], b: Sequence[Share]) -> tuple[Difference, ...]:
    """Return two breakdowns side by side: rows of one label in one, largest difference first."""
    one, two = {share.label: share for share in a}, {share.label: share for share in b}
    labels = list(dict.fromkeys((*one, *two)))
    whole = sum(abs(_time(two, label) - _time(one, label)) for label in labels)
    rows = [_row(label, one.get(label), two.get(label), whole) for label in labels]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_s)))


def _time(shares: Mapping[str, Share], label: str) -> float:
    return shares[label].time_s if label in shares else 0.0


def _row(label: str, a: Share | None, b: Share | None, whole_s: float) -> Difference:
    a_s, b_s = a.time_s if a else 0.0, b.time_s if b else 0.0
    worth_it = abs(b_s - a_s) >= LARGE * whole_s and a_s != b_s
    reason = _reason(label, a, b) if worth_it else Text("")
    return Difference(
        label=label,
        a_s=a_s,
        b_s=b_s,
        difference_s=b_s - a_s,
        a_count=a.count if a else 0,
        b_count=b.count if b else 0,
        reason=reason,
    )


def _reason(label: str, a: Share | None, b: Share | None) -> Text:
    """Say why a row differs, as far as the rows themselves tell."""
    if label == IDLE or label.startswith(IDLE_PREFIX):
        return _idle_reason(label, a, b)
    if a is None or b is None:
        return Text("only in the second run") if a is None else Text("only in the first run")
    if a.limiter and b.limiter and a.limiter != b.limiter:
        return Text(
            "limited by {first} in the first run, by {second} in the second",
            first=LIMITERS[a.limiter],
            second=LIMITERS[b.limiter],
        )
    if a.count != b.count and (a.count == 0 or abs(b.count / a.count - 1) > LARGE):
        return Text("{now} launches instead of {before}", now=b.count, before=a.count)
    return _rate_reason(a, b)


def _idle_reason(label: str, a: Share | None, b: Share | None) -> Text:
    if label != IDLE_PREFIX + "host dispatching":
        return Text("")
    a_s, b_s = a.time_s if a else 0.0, b.time_s if b else 0.0
    if b_s < a_s / 2:
        return Text("the host holds the first run up, the second hardly")
    if a_s < b_s / 2:
        return Text("the host holds the second run up, the first hardly")
    return Text("")


def _rate_reason(a: Share, b: Share) -> Text:
    """Same launches, same limit: more or less work, else another rate."""
    if a.flops > 0 and b.flops > 0 and abs(b.flops / a.flops - 1) > LARGE:
        share = Percent(abs(b.flops / a.flops - 1))
        if b.flops > a.flops:
            return Text("{share} more FLOPs", share=share)
        return Text("{share} fewer FLOPs", share=share)
    if a.moved_bytes > 0 and b.moved_bytes > 0 and abs(b.moved_bytes / a.moved_bytes - 1) > LARGE:
        share = Percent(abs(b.moved_bytes / a.moved_bytes - 1))
        if b.moved_bytes > a.moved_bytes:
            return Text("{share} more bytes", share=share)
        return Text("{share} fewer bytes", share=share)
    if a.time_s <= 0 or b.time_s <= 0:
        return Text("")
    if a.moved_bytes > 0 and b.moved_bytes > 0 and a.limiter in ("memory", "l2"):
        rate = (b.moved_bytes / b.time_s) / (a.moved_bytes / a.time_s)
        return Text("{rate}× the bytes per second", rate=Number(rate, ".2f"))
    if a.flops > 0 and b.flops > 0:
        rate = (b.flops / b.time_s) / (a.flops / a.time_s)
        return Text("{rate}× the FLOPs per second", rate=Number(rate, ".2f"))
    return Text("")


_ORIGINS: Mapping[str, Text] = {"predicted": Text("predicted"), "measured": Text("measured")}


def _summary(
    names: tuple[Text, Text], a_s: float, b_s: float, classes: Sequence[Difference]
) -> Text:
    """One sentence: which is faster, by how much, and which class holds most of it."""
    if not classes or a_s <= 0 or b_s <= 0:
        return Text("Nothing to compare.")
    gap = Seconds(abs(b_s - a_s))
    largest = classes[0]
    if abs(b_s - a_s) < 0.005 * a_s:
        return Text("Both take {a} a step.", a=Seconds(a_s))
    first, last = (1, 0) if b_s < a_s else (0, 1)
    ratio = max(a_s, b_s) / min(a_s, b_s)
    return Text(
        "{faster} is {ratio}× as fast as {slower} ({gap} a step); the largest part is {part} "
        "({time}).",
        faster=names[first],
        ratio=Number(ratio, ".2f"),
        slower=names[last],
        gap=gap,
        part=class_words(largest.label),
        time=Seconds(abs(largest.difference_s)),
    )
