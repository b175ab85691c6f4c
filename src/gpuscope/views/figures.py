"""Small text helpers that every view shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Seconds, Share
from gpuscope.document.text import Text, joined, render, verbatim
from gpuscope.run import Run
from gpuscope.views.words import word_text

FIELD_LABELS: dict[str, Text] = {
    "step_time_s": Text("step time"),
    "device_busy_s": Text("device time"),
    "host_busy_s": Text("host time"),
    "peak_memory_bytes": Text("peak memory"),
    "reserved_memory_bytes": Text("reserved memory"),
    "energy_j": Text("energy"),
}
"""Label of each field of a run that has an origin."""


EVIDENCE_MARKS: Mapping[str, tuple[str, Text]] = {
    "carried": (
        "~",
        Text("~ not measured itself: constants are carried over from its maker's devices."),
    ),
    "prior": (
        "†",
        Text("† no device of its maker was measured: a prior with a wide interval, no finding."),
    ),
}
"""By `Run.evidence`: what stands after the device's name, and what it means."""


def finding_text(finding: Finding, lang: str) -> tuple[str, str, str]:
    """Return title, evidence and hint in a language."""
    return (render(finding.title, lang), render(finding.evidence, lang), render(finding.hint, lang))


def gain_text(finding: Finding, run: Run, lang: str) -> str:
    """Return what a finding gains at most, and which others have the rest, to stand before a
    sentence; "" if nothing."""
    gain_s, others = finding.max_gain_s, _numbers(finding, run)
    said = []
    if gain_s:
        time, share = Seconds(gain_s), Share(gain_s / run.analysis.step_s)
        said.append(Text("Up to {time} ({share}) to gain. ", time=time, share=share))
    if others and gain_s:
        said.append(Text("The rest comes with no. {numbers}. ", numbers=others))
    elif others:
        said.append(Text("Its gain comes with no. {numbers}. ", numbers=others))
    return "".join(render(sentence, lang) for sentence in said)


def _numbers(finding: Finding, run: Run) -> Text:
    """The places in the list of the findings that have the rest of a finding's gain."""
    found = list(enumerate(run.analysis.findings, start=1))
    places = (
        next((n for n, other in found if other.kind == kind and other is not finding), None)
        for kind in finding.rest_with
    )
    return joined(verbatim(str(n)) for n in places if n is not None)


def short_operator(name: str) -> str:
    """Return "addmm" for "aten::addmm"; other namespaces stay, but for our own."""
    return name.removeprefix("aten::").removeprefix("gpuscope::")


def resample(times: Sequence[float], values: Sequence[float], points: int) -> list[float]:
    """Return the highest value in each of `points` equal slices of time.

    A value holds until the next point; a slice without a point keeps the value before it.
    """
    begin, end = times[0], times[-1]
    slices: list[float] = [float("-inf")] * points
    for time, value in zip(times, values, strict=True):
        at = int((time - begin) / (end - begin) * points) if end > begin else 0
        at = min(points - 1, at)
        slices[at] = max(slices[at], value)
    held = float(values[0])
    last_in: dict[int, float] = {}
    for time, value in zip(times, values, strict=True):
        at = int((time - begin) / (end - begin) * points) if end > begin else 0
        last_in[min(points - 1, at)] = value
    for i in range(points):
        slices[i] = max(slices[i], held)
        held = float(last_in.get(i, held))
    return slices


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Return a short name for each run: what tells them apart, the device's id where that does."""
    choices: tuple[list[str], ...] = (
        [run.device_id or run.target for run in runs],
        [run.target for run in runs],
        [Text("{target} ({origin})", target=r.target, origin=word_text(r.origin)) for r in runs],
        [run.name for run in runs],
    )
    for names in choices:
        if len(set(names)) == len(names):
            return names
    return [f"{number}. {run.target}" for number, run in enumerate(runs, start=1)]


def marked(name: str, run: Run) -> str:
    """Return the name, with a mark where nobody measured the device."""
    mark = EVIDENCE_MARKS.get(run.evidence)
    return f"{name} {mark[0]}" if mark else name


def marks_said(runs: Sequence[Run]) -> list[Text]:
    """Return what the marks of some runs' names mean, one sentence each."""
    found = {run.evidence for run in runs}
    return [said for evidence, (_, said) in EVIDENCE_MARKS.items() if evidence in found]
