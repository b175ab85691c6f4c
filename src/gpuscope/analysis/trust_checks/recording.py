"""What the recording holds at all, and what its recorder says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.analysis.window import COMMUNICATION
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text
from gpuscope.timeline.types import EVENT_KINDS

LACKS = frozenset({"no_memory_events", "no_steps", "one_rank"})
"""What was not recorded, without anything being wrong: a note that still takes its answer away."""

SKIPPED_SHARE = 0.01
"""Unusable events above this share of the file make its sums doubtful."""

_LOST = re.compile(r"drop|lost|overflow|out of (memory|order)|truncat|incomplete", re.IGNORECASE)
_FAILED = re.compile(r"error|fail|warn|not (available|supported|permitted)", re.IGNORECASE)
_MARKS = (EVENT_KINDS.index("step"), EVENT_KINDS.index("module"))


def check(facts: RankFacts) -> Iterator[Remark]:
    """Yield what the rank's recording lacks."""
    yield from _file(facts)
    yield from _messages(facts)
    yield from _lacks(facts)


def _file(facts: RankFacts) -> Iterator[Remark]:
    source = facts.source
    if source is None:
        return
    if source.cut_off:
        yield Remark(
            "cut_off",
            "doubt",
            Text(
                "The file ends in the middle: {events_read} whole events were read, what came "
                "after is missing.",
                events_read=source.events_read,
            ),
            ("time", "idle", "communication", "steps", "memory"),
            facts.rank,
        )
    if source.events_skipped:
        total = source.events_read + source.events_skipped
        share = source.events_skipped / total
        yield Remark(
            "skipped_events",
            "doubt" if share >= SKIPPED_SHARE else "note",
            Text(
                "{events_skipped} of {total} events ({share}) could not be used.",
                events_skipped=source.events_skipped,
                total=total,
                share=Percent(share),
            ),
            ("time", "idle"),
            facts.rank,
        )


def _messages(facts: RankFacts) -> Iterator[Remark]:
    """Warnings and errors that the recorder wrote; those about lost events raise doubts."""
    messages = facts.source.messages if facts.source is not None else ()
    lost = [m for m in messages if _LOST.search(m)]
    failed = [m for m in messages if m not in lost and _FAILED.search(m)]
    if lost:
        yield Remark(
            "recorder_lost_events",
            "doubt",
            Text(
                'The recorder says that events were lost: "{short}"{more}.',
                short=_short(lost[0]),
                more=_more(lost),
            ),
            ("time", "idle", "communication"),
            facts.rank,
        )
    if failed:
        yield Remark(
            "recorder_message",
            "note",
            Text(
                'The recorder says: "{short}"{more}.', short=_short(failed[0]), more=_more(failed)
            ),
            (),
            facts.rank,
        )


def _short(message: str, most: int = 160) -> str:
    line = " ".join(message.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _more(messages: list[str]) -> Text:
    count = len(messages) - 1
    return Text(" (and {count} more)", count=count) if count else Text("")


def _lacks(facts: RankFacts) -> Iterator[Remark]:
    events = facts.timeline.events
    host = facts.host[~np.isin(events.kind[facts.host], _MARKS)]
    if len(host) == 0:
        yield Remark(
            "no_host_events",
            "cannot",
            Text("The host is not recorded: why the device was idle cannot be told."),
            ("host",),
            facts.rank,
        )
    if not any(counter.name == "allocated" for counter in facts.timeline.counters):
        yield Remark(
            "no_memory_events",
            "note",
            Text("Memory was not recorded (record it with profile_memory=True)."),
            ("memory",),
            facts.rank,
        )
    if not facts.steps:
        yield Remark(
            "no_steps",
            "note",
            Text(
                "No step is marked or found that the device's work can be tied to: all times are "
                "of the whole recording."
            ),
            ("steps",),
            facts.rank,
        )
    elif facts.steps[0].found:
        yield Remark(
            "steps_found",
            "note",
            Text(
                "No step is marked: {steps} were found between the calls of the optimizer.",
                steps=len(facts.steps),
            )
            if facts.steps[0].found == "optimizer"
            else Text(
                "No step is marked: {steps} were found by the sequence of kernels that recurs.",
                steps=len(facts.steps),
            ),
            ("steps",),
            facts.rank,
        )
    size = facts.source.world_size if facts.source is not None else None
    talks = bool((events.kind[facts.device] == COMMUNICATION).any()) if len(facts.device) else False
    if not facts.several and talks and (size is None or size > 1):
        of = Text(" of {size}", size=size) if size else Text("")
        yield Remark(
            "one_rank",
            "note",
            Text(
                "Only one rank{of} is here: which rank it waits for cannot be told, and how long "
                "only by the time that a collective's bytes need.",
                of=of,
            ),
            ("ranks",),
            facts.rank,
        )
