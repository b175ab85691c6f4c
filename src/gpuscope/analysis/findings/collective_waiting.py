"""One recorded rank spends its communication on waiting for ranks that are not recorded."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.recorded_types import CollectiveWaiting, CommunicationSort
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Bytes, Percent, Seconds
from gpuscope.document.text import Text, sentences

LEAST_SHARE = 0.05
"""Waiting below this share of the step is usual."""

MOSTLY = 0.5
"""A host that works for more than this part of the waiting is no faster than it has to be."""

_HOSTS = Text(
    "All ranks run one program, so their hosts are most likely what is waited for: launch less "
    "(CUDA graphs, torch.compile(mode='reduce-overhead')), give each rank more work between two "
    "collectives, and keep other processes off the cores. Record all ranks to see which is last."
)
_OTHERS = Text(
    "Record all ranks (one trace each) and analyze them together: that tells which rank comes last "
    "and why. Sending less gains nothing here."
)


@finding("collective_waiting", needs="communication", order=35)
def collective_waiting(facts: Facts) -> Finding | None:
    """Applies when one rank's collectives take far longer than their bytes need.

    That is: their waiting (see `gpuscope.analysis.expected_waiting`) takes a twentieth of the step
    with no computation beside it. Gain: all of it, as if every rank came at once.
    """
    talk = facts.communication
    waiting = talk.waiting if talk is not None and facts.ranks is None else None
    if talk is None or waiting is None or facts.share(waiting.exposed_s) < LEAST_SHARE:
        return None
    sort = max(talk.sorts, key=lambda sort: sort.waiting_s or 0.0)
    working = waiting.host_s.get("working", 0.0)
    return Finding(
        kind="collective_waiting",
        title=Text(
            "Collectives wait for other ranks {share} of the step: they take longer than their "
            "bytes need.",
            share=Percent(facts.share(waiting.exposed_s)),
        ),
        evidence=sentences(_held(waiting, sort), _meanwhile(waiting)),
        max_gain_s=waiting.exposed_s,
        about=facts.about(facts.losses.talk, explains_s=facts.term_s("waiting")),
        hint=_HOSTS if working > MOSTLY * waiting.exposed_s else _OTHERS,
    )


def _held(waiting: CollectiveWaiting, sort: CommunicationSort) -> Text:
    """The largest sort against its expected time."""
    return Text(
        "Of {communication} of communication that nothing hides, {waiting} is waiting. Most of it: "
        "{count} {name} of {size} that should take {expected} each take {taken}.",
        communication=Seconds(waiting.communication_s),
        waiting=Seconds(waiting.exposed_s),
        count=sort.count,
        name=sort.name,
        size=Bytes(sort.message_bytes or 0),
        expected=Seconds(sort.expected_s or 0.0),
        taken=Seconds(sort.time_s / max(sort.count, 1)),
    )


def _meanwhile(waiting: CollectiveWaiting) -> Text:
    """What this rank's host did while its device waited."""
    if not waiting.host_s:
        return Text("What its host did meanwhile is not recorded.")
    names = {
        "working": Text("working (Python, operators, launches)"),
        "synchronising": Text("waiting for the device"),
        "loading": Text("loading input"),
        "done": Text("done with the recorded work"),
    }
    longest, time_s = max(waiting.host_s.items(), key=lambda part: part[1])
    return Text(
        "Meanwhile this rank's own host was {share} of the time {what}.",
        share=Percent(time_s / max(sum(waiting.host_s.values()), 1e-12)),
        what=names[longest],
    )
