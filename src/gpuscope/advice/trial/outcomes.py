"""What became of a trial, in one sentence."""

from __future__ import annotations

from gpuscope.advice.results import Objective, Outcome, Parity
from gpuscope.advice.trial.ladder_figures import quantity
from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text
from gpuscope.measurement.epochs import ran_out
from gpuscope.measurement.statistics import Interval

__all__ = ["ALTERNATED", "OVER", "outcome_words", "ran_out_words", "stopped_words"]

ALTERNATED = Text("Both do not fit on the device at once: they ran one after the other, in turn.")

OVER = Text("The budget was over.")

_BETTER = {
    "time": Text("faster"),
    "cost": Text("faster"),
    "memory": Text("less memory"),
    "energy": Text("less energy"),
}


def outcome_words(
    outcome: Outcome,
    ratio: Interval | None,
    figure: Interval | None,
    objective: Objective,
    parity: Parity | None,
) -> Text:
    """One sentence on a trial that ran.

    Args:
        outcome: "kept", "even", "slower" or "parity".
        ratio: of the step times, before over after.
        figure: of what was to become better, before over after.
        objective: what that is.
        parity: how the results compare, where that was looked at.
    """
    if ratio is None or figure is None:
        return Text("It was not timed.")
    gain = _gain(figure, ".3f")
    better = _BETTER[objective]
    if outcome == "kept" and parity is None:
        return Text(
            "{gain} {better}; its results were compared as part of the whole.",
            gain=gain,
            better=better,
        )
    if outcome == "kept":
        return Text("{gain} {better}; the results agree.", gain=gain, better=better)
    if outcome == "parity":
        why = _parity_words(parity)
        return Text("{gain} {better}, but {why}", gain=gain, better=better, why=why)
    if outcome == "slower":
        return Text("Worse: {gain}.", gain=gain)
    return Text("No gain that is sure: {gain}.", gain=gain)


def stopped_words(took_s: float, ratio: Interval | None) -> Text:
    """One sentence on a trial that the user has ended.

    Args:
        took_s: until then.
        ratio: of the step times, before over after; None where the pairs were not over.
    """
    took = Seconds(took_s)
    if ratio is None:
        return Text("Stopped after {took}, before its pairs were timed.", took=took)
    return Text(
        "Stopped after {took}: {gain}, but its results were not compared yet.",
        took=took,
        gain=_gain(ratio, ".3g"),
    )


def _gain(figure: Interval, spec: str) -> Text:
    return Text(
        "{median}× ({low} to {high})",
        median=Number(figure.median, spec),
        low=Number(figure.low, spec),
        high=Number(figure.high, spec),
    )


def ran_out_words(batches: int) -> Text:
    """One sentence on a loader that ran out and began again.

    Args:
        batches: that it had given.
    """
    return ran_out(batches)


def _parity_words(parity: Parity | None) -> Text:
    if parity is None:
        return Text("the results were not compared.")
    if parity.verdict == "overflow":
        return Text("it gives NaN or infinity where the original does not.")
    if parity.verdict == "unchecked":
        note = parity.note or Text("nothing comparable was seen.")
        return Text("the results could not be compared: {note}", note=note)
    worst = [c for c in parity.compared if not c.agrees]
    if not worst:
        return Text("the results differ.")
    first = max(worst, key=lambda c: c.largest / c.tolerance if c.tolerance else c.largest)
    what = quantity(first.what)
    return Text(
        "the results differ: {what} by {largest}, where {tolerance} is allowed.",
        what=what,
        largest=Number(first.largest, ".2g"),
        tolerance=Number(first.tolerance, ".2g"),
    )
