"""A finding promises no more than the time that it names can give, or a simulation of its advice
does, and no time twice."""

from __future__ import annotations

import math

from gpuscope.analysis.breakdown import IDLE_PREFIX, WAITING
from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant

_HOLDS: dict[str, tuple[str, ...]] = {
    "compute_bound": ("compute-bound",),
    "bandwidth_bound": ("bandwidth-bound",),
    "launch_bound": ("launch-bound", IDLE_PREFIX),
    "host_bound": ("launch-bound", WAITING, IDLE_PREFIX),
    "input_bound": ("transfers", WAITING, IDLE_PREFIX),
}
"""Which classes of the step each sort of finding is about (prefixes of their labels); what one host
costs, other ranks wait for."""


@invariant("gains")
def gains(output: Output, book: Book) -> None:
    """Each gain against the time of its cause and a simulation; all of them against the step."""
    analysis = output.run.analysis
    _simulated(output, book)
    for finding in analysis.findings:
        about = _HOLDS.get(finding.kind)
        if about is not None and finding.max_gain_s is not None:
            time_s = math.fsum(s.time_s for s in analysis.classes if s.label.startswith(about))
            book.at_most(_of(finding.kind), finding.max_gain_s, time_s)
    promised = math.fsum(finding.max_gain_s or 0.0 for finding in analysis.findings)
    if analysis.time and analysis.findings:
        what = Text("what all findings promise together")
        book.at_most(what, promised, analysis.step_s)


def _simulated(output: Output, book: Book) -> None:
    """No finding promises more than the step predicted with its advice taken bears out."""
    analysis = output.run.analysis
    for finding in analysis.findings:
        if finding.predicted_step_s is not None and finding.max_gain_s is not None:
            saved_s = max(0.0, analysis.step_s - finding.predicted_step_s)
            what = Text("{row}, beside its simulation", row=f"analysis.findings: {finding.kind}")
            book.at_most(what, finding.max_gain_s, saved_s, within=1e-6)


def _of(kind: str) -> Text:
    return Text("the gain of {row}", row=f"analysis.findings: {kind}")
