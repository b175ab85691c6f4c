"""Some steps take much longer than the others."""

from __future__ import annotations

from gpuscope.analysis.class_words import class_words
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.recorded_types import RankSteps, SlowStep
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined, sentences

LEAST_SHARE = 0.05
"""Slow steps that raise the mean by less than this are not worth a sentence."""


_VARYING = {
    "data loader": Text("data loader"),
    "garbage collection": Text("garbage collection"),
    "allocation on the device": Text("allocation on the device"),
    "compilation": Text("compilation"),
}


@finding("variable_steps", needs="steps", order=170)
def variable_steps(facts: Facts) -> Finding | None:
    """Applies when slow steps raise the mean step by a twentieth or more.

    Gain: mean less median, as if every slow step were an ordinary one.
    """
    if facts.step_spread is None:
        return None
    own = [steps for steps in facts.step_spread.ranks if steps.rank == facts.rank]
    if not own or not own[0].slow:
        return None
    steps, worst = own[0], own[0].slow[0]
    gain = steps.mean_s - steps.median_s
    if gain < LEAST_SHARE * steps.mean_s:
        return None
    count, of = len(steps.slow), len(steps.times_s)
    return Finding(
        kind="variable_steps",
        title=Text(
            "{count} of {of} steps are slow: the mean step is {gain} longer than need be.",
            count=count,
            of=of,
            gain=Percent(gain / steps.mean_s),
        ),
        evidence=sentences(
            Text(
                "The median step takes {median}, the mean {mean}, the slowest {slowest}.",
                median=Seconds(steps.median_s),
                mean=Seconds(steps.mean_s),
                slowest=Seconds(steps.slowest_s),
            ),
            _worst(worst),
            _jitter(steps),
        ),
        max_gain_s=gain,
        hint=Text(
            "Look at what grew in the slow steps. Usual causes: the data loader, allocation on the "
            "device (cudaMalloc), garbage collection (gc.freeze, gc.disable), changing shapes, "
            "saving and logging inside the step."
        ),
    )


def _worst(slow: SlowStep) -> Text:
    parts = joined(
        Text("{what} {time}", what=class_words(label), time=Seconds(time_s))
        for label, time_s in slow.parts[:3]
        if time_s > 0
    )
    more = Seconds(slow.extra_s)
    if not slow.causes:
        return Text(
            "Step {number} takes {more} more: {parts}.", number=slow.number, more=more, parts=parts
        )
    return Text(
        "Step {number} takes {more} more: {parts}; of single names {name} most.",
        number=slow.number,
        more=more,
        parts=parts,
        name=slow.causes[0][0],
    )


def _jitter(steps: RankSteps) -> Text:
    varying = [(n, m, most) for n, (m, most) in steps.jitter.items() if most > 2 * m]
    if not varying:
        return Text("")
    name, median, most = max(varying, key=lambda item: item[2])
    return Text(
        "Host time in {name} varies: median {median}, at most {most}.",
        name=_VARYING[name],
        median=Seconds(median),
        most=Seconds(most),
    )
