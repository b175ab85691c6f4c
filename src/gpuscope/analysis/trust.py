"""How far a recording can be trusted: every check of `trust_checks`, before any verdict.

A remark that something *cannot* be concluded takes the answer away: findings that rest on it are
not given. A *doubt* stays beside the answer. The thresholds stand with the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuscope.analysis.collective_match import Match, match_collectives
from gpuscope.analysis.recorded_types import QUESTIONS, Remark, Trust
from gpuscope.analysis.trust_checks import (
    across_ranks,
    device_work,
    profiler,
    recording,
    step_marks,
)
from gpuscope.analysis.trust_checks.facts import rank_facts
from gpuscope.document.text import plural, sentences
from gpuscope.timeline.types import Timeline

_SEVERITIES = ("cannot", "doubt", "note")


def trust(timeline: Timeline, rank: int | None = None, match: Match | None = None) -> Trust | None:
    """Check a recording; None for a predicted timeline, which has nothing to check.

    Args:
        timeline: of one rank or several.
        rank: the rank to check; None for all of them and what is between them.
        match: its matched collectives, where they are known already.
    """
    if timeline.origin == "predicted":
        return None
    present = _ranks(timeline)
    chosen = present if rank is None else (rank,)
    facts = [rank_facts(timeline, number, len(present) > 1) for number in chosen]
    found: list[Remark] = []
    for each in facts:
        for checks in (device_work, recording, profiler, step_marks):
            found.extend(checks.check(each))
    if rank is None:
        if match is None and len(present) > 1:
            match = match_collectives(timeline)
        found.extend(across_ranks.check(timeline, facts, match))
    return Trust(_joined(found, chosen), _conclusions(found, chosen))


def _ranks(timeline: Timeline) -> tuple[int, ...]:
    """Every rank that has a lane, a source or a step."""
    found = {lane.rank for lane in timeline.lanes} | {s.rank for s in timeline.sources}
    return tuple(sorted(found | {step.rank for step in timeline.steps})) or (0,)


def _conclusions(remarks: Iterable[Remark], ranks: Sequence[int]) -> dict[str, bool]:
    """A question has no answer where no rank can answer it, or all of them together cannot."""
    blocked: dict[str, set[int]] = {question: set() for question in QUESTIONS}
    for remark in remarks:
        if remark.severity == "cannot" or remark.code in recording.LACKS:
            for question in remark.about:
                blocked[question] |= set(ranks) if remark.rank is None else {remark.rank}
    return {question: not set(ranks) <= blocked[question] for question in QUESTIONS}


def _joined(remarks: Iterable[Remark], ranks: Sequence[int]) -> tuple[Remark, ...]:
    """Worst first; what several ranks have in common is said once."""
    groups: dict[tuple[str, str], list[Remark]] = {}
    for remark in remarks:
        groups.setdefault((remark.code, remark.severity), []).append(remark)
    out: list[Remark] = []
    for same in groups.values():
        one, others = same[0], len(same) - 1
        if len(ranks) == 1:
            out.extend(replace(remark, rank=None) for remark in same)
        elif one.rank is None or not others:
            out.extend(same)
        elif len({remark.sentence for remark in same}) == 1 and len(same) == len(ranks):
            out.append(replace(one, rank=None))
        else:
            more = plural(
                "(Rank {rank}; {count} other rank likewise.)",
                "(Rank {rank}; {count} other ranks likewise.)",
                others,
                rank=one.rank,
            )
            out.append(replace(one, sentence=sentences(one.sentence, more)))
    return tuple(sorted(out, key=lambda remark: _SEVERITIES.index(remark.severity)))
