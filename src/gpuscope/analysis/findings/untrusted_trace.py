"""The recording cannot carry a verdict, or only with doubts."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.types import Finding
from gpuscope.document.text import Text, sentences

_SERIOUS = frozenset({"time", "idle", "communication"})
"""Questions without which there is no story. That memory was not recorded is no fault."""


@finding("untrusted_trace", needs="", order=90)
def untrusted_trace(facts: Facts) -> Finding | None:
    """Applies when a check of the recording failed: something cannot be concluded, or is doubtful.

    Gain: none, it is about the recording.
    """
    if facts.trust is None:
        return None
    remarks = facts.trust.remarks
    failed = [r for r in remarks if r.severity == "cannot" and _SERIOUS & set(r.about)]
    doubts = [r for r in remarks if r.severity == "doubt"]
    worst = (failed + doubts)[:1]
    if not worst:
        return None
    whole = failed and not facts.trust.can_conclude["time"]
    title = (
        Text("The recording cannot be trusted: its device times mean nothing.")
        if whole and worst[0].code != "no_device_work"
        else Text("The recording has no device work to judge.")
        if whole
        else Text("The recording raises doubts: read the figures with care.")
    )
    given = (failed + [r for r in doubts if r not in failed])[:3]
    return Finding(
        kind="untrusted_trace",
        title=title,
        evidence=sentences(*map(_words, given)),
        max_gain_s=None,
        hint=Text(
            "Record again: device activity on, one profiler at a time, a warm-up before, whole "
            "steps, a buffer large enough (fewer steps)."
        ),
    )


def _words(remark: Remark) -> str:
    if remark.rank is None:
        return remark.sentence
    return Text("Rank {rank}: {sentence}", rank=remark.rank, sentence=remark.sentence)
