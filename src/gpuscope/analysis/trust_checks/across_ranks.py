"""Do the ranks' recordings belong together: all there, on one clock, of one run?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuscope.analysis.collective_match import Match
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined
from gpuscope.timeline.types import Timeline

SKEW_NS = 100_000
"""Clocks of one host agree within a few us; above this, times across ranks must be corrected."""

DRIFT_NS = 50_000
"""Single readings of the offset that vary more than this: ends that are not together."""

UNMATCHED_SHARE = 0.05
"""Collectives without a partner: a few at the recording's ends are usual."""


def check(timeline: Timeline, ranks: Sequence[RankFacts], match: Match | None) -> Iterator[Remark]:
    """Yield what is wrong between the ranks."""
    yield from _present(timeline, ranks)
    if len(ranks) < 2:
        return
    yield from _one_time(ranks)
    if match is not None and len(match.calls):
        yield from _clocks(match)
        yield from _partners(match)


def _present(timeline: Timeline, ranks: Sequence[RankFacts]) -> Iterator[Remark]:
    """Ranks that are missing or there twice."""
    numbers = [source.rank for source in timeline.sources]
    twice = sorted({n for n in numbers if numbers.count(n) > 1})
    if twice:
        named = _list(twice)
        yield Remark(
            "rank_twice",
            "cannot",
            Text("Rank {named} is there more than once: two recordings are mixed.", named=named),
            ("time", "communication", "ranks"),
        )
    worlds = {source.world_size for source in timeline.sources if source.world_size}
    if len(worlds) > 1:
        sizes = _list(sorted(worlds))
        yield Remark(
            "different_worlds",
            "cannot",
            Text(
                "The recordings name different numbers of ranks ({sizes}): they are of different "
                "runs.",
                sizes=sizes,
            ),
            ("ranks",),
        )
        return
    if len(ranks) < 2 or not worlds:
        return
    size = worlds.pop()
    missing = sorted(set(range(size)) - {facts.rank for facts in ranks})
    if missing:
        named = _list(missing)
        yield Remark(
            "ranks_missing",
            "doubt",
            Text(
                "{ranks} of {size} ranks are here; missing: {named}. If one of those came last, "
                "part of what looks like transfer is waiting.",
                ranks=len(ranks),
                size=size,
                named=named,
            ),
            ("communication", "ranks"),
        )
    unsure = [facts.rank for facts in ranks if facts.source and not facts.source.rank_known]
    if unsure:
        yield Remark(
            "rank_guessed",
            "note",
            Text(
                "The files of rank {ranks} do not say which rank they are; it was taken from their "
                "names or order.",
                ranks=_list(unsure),
            ),
            ("ranks",),
        )


def _one_time(ranks: Sequence[RankFacts]) -> Iterator[Remark]:
    """Recordings that share no moment cannot meet in a collective."""
    spans = []
    for facts in ranks:
        events = facts.timeline.events
        if len(facts.device):
            spans.append(
                (
                    int(events.start_ns[facts.device].min()),
                    int(events.end_ns[facts.device].max()),
                    facts.rank,
                )
            )
    if len(spans) < 2:
        return
    latest, earliest = max(spans), min(spans, key=lambda span: span[1])
    if latest[0] >= earliest[1]:
        apart = Seconds((latest[0] - earliest[1]) * 1e-9)
        yield Remark(
            "no_common_time",
            "doubt",
            Text(
                "Rank {latest} begins {apart} after rank {earliest} has ended: the recordings are "
                "of different times, or their clocks have different zeros.",
                latest=latest[2],
                apart=apart,
                earliest=earliest[2],
            ),
            ("ranks",),
        )


def _clocks(match: Match) -> Iterator[Remark]:
    skewed = {
        rank: offset
        for rank, offset in match.offsets.items()
        if abs(offset.offset_ns) >= SKEW_NS and abs(offset.offset_ns) > 3 * offset.spread_ns
    }
    if skewed:
        worst = max(skewed, key=lambda rank: abs(skewed[rank].offset_ns))
        offset_ns = skewed[worst].offset_ns
        by = Seconds(abs(offset_ns) * 1e-9)
        way = Text("ahead") if offset_ns > 0 else Text("behind")
        yield Remark(
            "clock_skew",
            "note",
            Text(
                "The ranks' clocks differ: that of rank {worst} runs {by} {way} (read off the ends "
                "of collectives). Waiting is computed with this corrected.",
                worst=worst,
                by=by,
                way=way,
            ),
            ("ranks",),
        )
    loose = {r: o for r, o in match.offsets.items() if o.spread_ns >= DRIFT_NS}
    if loose:
        worst = max(loose, key=lambda rank: loose[rank].spread_ns)
        by = Seconds(loose[worst].spread_ns * 1e-9)
        yield Remark(
            "clock_drift",
            "doubt",
            Text(
                "Ends of the same collective vary between the ranks (rank {worst}: by {by} half of "
                "the time): clocks drift, or collectives are matched wrongly.",
                worst=worst,
                by=by,
            ),
            ("ranks",),
        )


def _partners(match: Match) -> Iterator[Remark]:
    calls = match.calls
    if match.given_up:
        named = joined(name or Text("unnamed") for name in match.given_up)
        yield Remark(
            "collectives_unmatched",
            "cannot" if match.count == 0 else "doubt",
            Text(
                "Collectives of {given_up} groups ({named}) could not be matched across the ranks: "
                "the recording does not say who is in them, or ranks leave before others come.",
                given_up=len(match.given_up),
                named=named,
            ),
            ("ranks",),
        )
    per_rank = np.bincount(calls.rank, minlength=len(calls.ranks))
    lonely = int(((match.id < 0) & ~match.alone).sum())
    if match.count and lonely >= UNMATCHED_SHARE * len(calls):
        low, high = int(per_rank.argmin()), int(per_rank.argmax())
        yield Remark(
            "collectives_differ",
            "note" if lonely < 0.5 * len(calls) else "doubt",
            Text(
                "{lonely} of {calls} communication kernels ({share}) have no partner: rank "
                "{rank} has {fewer} of them, rank {other} {more}; the recordings begin "
                "or end at different places.",
                lonely=lonely,
                calls=len(calls),
                share=Percent(lonely / len(calls)),
                rank=calls.ranks[low],
                fewer=per_rank[low],
                other=calls.ranks[high],
                more=per_rank[high],
            ),
            ("ranks",),
        )


def _list(numbers: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return shown + (", ..." if len(numbers) > most else "")
