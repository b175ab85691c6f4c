"""Tables and bars of a ladder: its steps, what failed, what agrees, every trial."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from gpuscope.advice.results import Ladder, Measured, Outcome, Parity, Purpose, Trial
from gpuscope.advice.trial.rungs import Rung, best_step_s, product, rungs, scatters
from gpuscope.document.blocks import Bar, Bars, Cell, Column, Part, Table
from gpuscope.document.quantities import Number, Percent, Ratio, Seconds
from gpuscope.document.text import Text, capital, joined, sentences, verbatim

__all__ = [
    "OUTCOMES",
    "best_parity",
    "best_trial",
    "duration",
    "failed",
    "failed_table",
    "objective_gain",
    "pace",
    "parity_table",
    "predicted_step_s",
    "quantity",
    "share_of",
    "step_bars",
    "step_table",
    "title_of",
    "titles_of",
    "trial_table",
    "untried",
    "untried_table",
]

OUTCOMES: dict[Outcome, Text] = {
    "kept": Text("faster"),
    "even": Text("no difference"),
    "slower": Text("slower"),
    "parity": Text("other results"),
    "crashed": Text("crashed"),
    "short": Text("too short"),
    "hung": Text("out of time"),
    "memory": Text("out of memory"),
    "impossible": Text("not possible here"),
    "skipped": Text("not tried"),
}

_BROKEN = ("parity", "crashed", "short", "hung", "memory", "impossible")

_SAME = 1e-9
"""A product of gains that is the whole one but for rounding."""

_PURPOSES: dict[Purpose, Text] = {
    "": verbatim(""),
    "jump": Text("the best guess, all at once"),
    "part": Text("a part, to find the culprit"),
    "more": Text("one more"),
    "other": Text("little expected"),
    "final": Text("original against best"),
    "step": Text("one step"),
    "without": Text("without one of them"),
    "alone": Text("alone"),
    "patch": Text("the patched source"),
}

_VERDICTS = {
    "agrees": Text("agree"),
    "differs": Text("differ"),
    "overflow": Text("overflow"),
    "distribution": Text("agree in distribution"),
    "unchecked": Text("not checked"),
}

_QUANTITIES = {
    "loss": Text("loss"),
    "gradient norm": Text("gradient norm"),
    "output": Text("model output"),
    "result": Text("returned value"),
    "update of the parameters": Text("update of the parameters"),
    "first step": Text("first step"),
    "later steps": Text("later steps"),
}


def quantity(what: str) -> Text:
    """A compared quantity, such as "loss, first step" or "mean loss"."""
    parts = [_part(part.strip()) for part in what.split(",")]
    if len(parts) == 1:
        return parts[0]
    return Text("{quantity}, {steps}", quantity=parts[0], steps=parts[1])


def _part(what: str) -> Text:
    """One part of it; a mean is named by what it is of."""
    bare = what.removeprefix("mean ")
    found = _QUANTITIES.get(bare) or verbatim(bare)
    return found if bare == what else Text("mean {quantity}", quantity=found)


def title_of(name: str) -> Text:
    """What a change is called; its name where it is not known any more."""
    from gpuscope.advice.registry import find
    from gpuscope.errors import UnknownNameError

    try:
        return find(name).title
    except UnknownNameError:
        return verbatim(name)


def titles_of(names: Sequence[str]) -> Text:
    """Titles of several changes in one line."""
    return joined([title_of(name) for name in names])


def failed(ladder: Ladder) -> tuple[Trial, ...]:
    """What was really tried and not kept: single changes, each once, the last word on it; then
    sets that broke where it is not known which of their changes did it."""
    found: dict[str, Trial] = {}
    for trial in ladder.trials:
        if len(trial.added) == 1 and trial.added[0] not in ladder.best:
            bad = trial.outcome not in ("kept", "skipped")
            if bad or trial.added[0] not in found:
                found[trial.added[0]] = trial
    single = tuple(t for t in found.values() if t.outcome != "skipped")
    culprits = {t.added[0] for t in single}
    sets = tuple(
        t
        for t in ladder.trials
        if t.outcome in _BROKEN
        and len(t.added) > 1
        and t.purpose != "patch"
        and not culprits & set(t.added)
    )
    return single + sets


def untried(ladder: Ladder) -> tuple[Trial, ...]:
    """Single changes that were only predicted."""
    judged = {t.added for t in ladder.trials if t.outcome != "skipped"}
    found = {
        t.added: t
        for t in ladder.trials
        if t.outcome == "skipped"
        and len(t.added) == 1
        and t.added not in judged
        and t.added[0] not in ladder.best
    }
    return tuple(found.values())


def best_parity(ladder: Ladder) -> Parity | None:
    """How the best set's results compare with the original's; None where that was not checked."""
    same = [
        t
        for t in ladder.trials
        if set(t.names) == set(ladder.best) and t.parity is not None and t.purpose != "patch"
    ]
    return same[-1].parity if same else None


def cut_short(ladder: Ladder) -> bool:
    """Whether trials that something is expected of were left out, or the user stopped it.

    Those of purpose "other" are tried only because a prediction may be wrong.
    """
    left_out = (t for t in ladder.trials if t.outcome == "skipped" and t.purpose)
    return ladder.interrupted or any(t.purpose != "other" for t in left_out)


def best_trial(ladder: Ladder) -> Trial | None:
    """The last measurement of what is kept; None where there is none."""
    same = [
        t
        for t in ladder.trials
        if set(t.names) == set(ladder.best) and t.measured is not None and t.purpose != "patch"
    ]
    return same[-1] if same else None


def objective_gain(ladder: Ladder) -> float | None:
    """How many times better the best is by what was asked for; None where that is not known."""
    if ladder.objective in ("time", "cost"):
        return ladder.speedup
    last = best_trial(ladder)
    after = last.measured if last is not None else None
    if ladder.objective == "memory":
        old, new = ladder.baseline.peak_memory_bytes, after and after.peak_memory_bytes
        return old / new if old and new else None
    before_j, after_j = ladder.baseline.energy_j, after and after.energy_j
    return before_j / after_j if before_j and after_j else None


def pace(ladder: Ladder, step_s: float) -> tuple[float, str]:
    """Work per second with its unit, or the step time where its work is not known."""
    if ladder.per_step and ladder.unit:
        return ladder.per_step / step_s, f"{ladder.unit}/s"
    return step_s, "s"


def predicted_step_s(ladder: Ladder) -> float | None:
    """The step of the code as it was, as it was predicted; None where nothing was.

    A forecast holds the step after its changes and the gain over the step before, for the same
    work, as everything that is tried does.
    """
    return next(
        (
            f.speedup * f.step_time_s
            for t in ladder.trials
            if (f := t.forecast) is not None and f.speedup and f.step_time_s
        ),
        None,
    )


def step_table(ladder: Ladder) -> Table:
    """Each rung: predicted and measured gain, the step after it, memory, results."""
    columns = (
        Column(Text("change")),
        Column(Text("predicted"), "ratio"),
        Column(Text("measured"), "ratio"),
        Column(Text("95 % interval")),
        Column(Text("step"), "s"),
        Column(Text("memory"), "bytes"),
        Column(Text("results")),
    )
    original: tuple[Cell, ...] = (
        Text("the code as it was"),
        "",
        "",
        "",
        ladder.baseline.step_s,
        ladder.baseline.reserved_memory_bytes,
        "",
    )
    found = rungs(ladder)
    rows = [original, *(_step_row(ladder, rung) for rung in found)]
    marked = tuple(
        n for n, r in enumerate(found, start=1) if r.added and set(r.added) <= set(ladder.best)
    )
    if _met(ladder, found):
        rows.append(_whole_row(ladder))
    return Table(Text("Step by step"), columns, tuple(rows), marked, _step_note(ladder, found))


def _met(ladder: Ladder, found: Sequence[Rung]) -> bool:
    """Whether original and best were held against each other beside the rungs."""
    if len(found) < 2 or not ladder.speedup:
        return False
    return abs(product(found) / ladder.speedup - 1) > _SAME


def _step_note(ladder: Ladder, found: Sequence[Rung]) -> Text:
    said = [
        Text(
            "Gains are over the rung above, from interleaved pairs of blocks; the predicted ones "
            "were made before any trial. They multiply to the end, and each step is the "
            "original's, divided by the gains until there."
        )
    ]
    if found and found[-1].trial is None and len(found) > 1:
        said.append(
            Text(
                "The last rung was not tried by itself: it is what the others leave of original "
                "against best."
            )
        )
    if _met(ladder, found) and scatters(ladder, found):
        said.append(
            Text(
                "The rungs multiply to {product}, original against best in pairs gave {whole}: the "
                "machine's pace changed between the trials.",
                product=Ratio(product(found)),
                whole=Ratio(ladder.speedup),
            )
        )
    return sentences(*said)


def _step_row(ladder: Ladder, rung: Rung) -> tuple[Cell, ...]:
    measured = rung.trial.measured if rung.trial is not None else _measured(ladder, rung.names)
    parity = rung.trial.parity if rung.trial is not None else best_parity(ladder)
    return (
        _rung_name(ladder, rung),
        rung.expected if rung.expected is not None else "",
        rung.speedup,
        _interval(rung.low, rung.high),
        rung.step_s,
        measured.reserved_memory_bytes if measured else None,
        _VERDICTS[parity.verdict] if parity is not None else "",
    )


def _rung_name(ladder: Ladder, rung: Rung) -> Text:
    if not rung.added:
        return Text("without {left_out}", left_out=titles_of(rung.removed))
    name = titles_of(rung.added)
    if not set(rung.added) <= set(ladder.best):
        name = Text("{name} (withdrawn)", name=name)
    return Text("+ {change}", change=name)


def _whole_row(ladder: Ladder) -> tuple[Cell, ...]:
    """Original against best, measured as a whole."""
    measured, parity = _measured(ladder, ladder.best), best_parity(ladder)
    return (
        Text("original against best"),
        "",
        ladder.speedup,
        _interval(ladder.low, ladder.high),
        best_step_s(ladder),
        measured.reserved_memory_bytes if measured else None,
        _VERDICTS[parity.verdict] if parity is not None else "",
    )


def _measured(ladder: Ladder, names: Sequence[str]) -> Measured | None:
    """The last measurement of a set of changes."""
    found = [t.measured for t in ladder.trials if set(t.names) == set(names) and t.measured]
    return found[-1] if found else None


def step_bars(ladder: Ladder) -> Bars:
    """The pace after each rung: work per second where known, else the step time."""
    value, unit = pace(ladder, ladder.baseline.step_s)
    bars = [Bar(Text("the code as it was"), (Part(Text("original"), value, "other"),))]
    for rung in rungs(ladder):
        value, _ = pace(ladder, rung.step_s)
        good = set(rung.added) <= set(ladder.best)
        part = Part(Text("measured"), value, "good" if good else "bad")
        bars.append(Bar(_rung_name(ladder, rung), (part,)))
    title = Text("Step time after each change")
    if unit != "s":
        title = capital(Text("{work} per second after each change", work=ladder.unit))
    return Bars(title, "s" if unit == "s" else "", tuple(bars))


def failed_table(trials: Sequence[Trial]) -> Table:
    """What was tried and not kept, with the reason."""
    columns = (
        Column(Text("change")),
        Column(Text("outcome")),
        Column(Text("predicted"), "ratio"),
        Column(Text("measured"), "ratio"),
        Column(Text("why")),
    )
    rows = tuple(
        (titles_of(t.added), OUTCOMES[t.outcome], _predicted(t), _gain(t), t.why) for t in trials
    )
    return Table(Text("Tried, and not kept"), columns, rows)


def untried_table(trials: Sequence[Trial]) -> Table:
    """What was only predicted."""
    columns = (Column(Text("change")), Column(Text("predicted"), "ratio"), Column(Text("why")))
    rows = tuple((titles_of(t.added), _predicted(t), t.why) for t in trials)
    return Table(Text("Not tried"), columns, rows)


def parity_table(parity: Parity) -> Table:
    """What was compared with the original, and how far it is off."""
    columns = (
        Column(Text("what")),
        Column(Text("largest difference")),
        Column(Text("allowed")),
        Column(Text("steps"), "count"),
    )
    rows = tuple(
        (quantity(c.what), str(share_of(c.largest)), str(share_of(c.tolerance)), c.steps)
        for c in parity.compared
    )
    note = parity.note or Text(
        "Relative to the original code's own run, with the same seeds and inputs."
    )
    return Table(Text("Results against the original's"), columns, rows, (), note)


def trial_table(ladder: Ladder) -> Table:
    """Every trial in order."""
    columns = (
        Column(Text("trial")),
        Column(Text("why it was made")),
        Column(Text("outcome")),
        Column(Text("predicted"), "ratio"),
        Column(Text("measured"), "ratio"),
        Column(Text("95 % interval")),
        Column(Text("took"), "s"),
    )
    ran = [t for t in ladder.trials if t.outcome != "skipped" and not _repeats(t)]
    rows = tuple(
        (
            _what(t),
            _PURPOSES[t.purpose],
            OUTCOMES[t.outcome],
            _predicted(t),
            _gain(t),
            _interval(t.low, t.high),
            t.seconds,
        )
        for t in ran
    )
    return Table(Text("Every trial"), columns, rows)


def _repeats(trial: Trial) -> bool:
    """A step that an earlier trial had measured."""
    return trial.purpose == "step" and trial.seconds == 0.0


def _what(trial: Trial) -> Cell:
    if trial.added:
        return joined([joined(trial.against), joined(trial.added)], " + ")
    left_out = [n for n in trial.against if n not in trial.names]
    return Text("without {left_out}", left_out=joined(left_out))


def _predicted(trial: Trial) -> Cell:
    """The predicted gain; nothing where none was."""
    return trial.expected if trial.expected is not None else ""


def _gain(trial: Trial) -> Cell:
    """The measured gain; nothing where it did not come to a measurement."""
    return trial.speedup if trial.speedup is not None else ""


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{Number(low)}–{Number(high)}"


def share_of(value: float) -> Number | Percent:
    """A relative difference; tiny ones by their power of ten."""
    tiny = not isfinite(value) or 0 < value < 1e-4
    return Number(value, ".0e") if tiny else Percent(value)


def duration(value_s: float) -> Text:
    """Seconds of a search in words: "45 s", "12 min"."""
    if value_s < 120:
        return verbatim(Seconds(value_s))
    return Text("{minutes} min", minutes=Number(value_s / 60, ".0f"))
