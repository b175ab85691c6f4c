"""Do the ranks' recordings belong together: all there, on one clock, of one run?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuscope.analysis.collective_match import Match
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.analysis.wording import percent, seconds
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
            "rank_twice", "cannot",
            f"Rank {named} is there more than once: two recordings are mixed.",
            f"rank {named} 出现了多次：两份记录混在一起。", ("time", "communication", "ranks"),
        )  # fmt: skip
    worlds = {source.world_size for source in timeline.sources if source.world_size}
    if len(worlds) > 1:
        sizes = _list(sorted(worlds))
        yield Remark(
            "different_worlds", "cannot",
            f"The recordings name different numbers of ranks ({sizes}): they are of different "
            "runs.",
            f"各记录所说的进程总数不同（{sizes}）：它们来自不同的运行。", ("ranks",),
        )  # fmt: skip
        return
    if len(ranks) < 2 or not worlds:
        return
    size = worlds.pop()
    missing = sorted(set(range(size)) - {facts.rank for facts in ranks})
    if missing:
        named = _list(missing)
        yield Remark(
            "ranks_missing", "doubt",
            f"{len(ranks)} of {size} ranks are here; missing: {named}. If one of those came last, "
            "part of what looks like transfer is waiting.",
            f"{size} 个进程中有 {len(ranks)} 个的记录，缺少：{named}。如果其中某个最后到达，"
            "看似传输的时间里有一部分是等待。",
            ("communication", "ranks"),
        )  # fmt: skip
    unsure = [facts.rank for facts in ranks if facts.source and not facts.source.rank_known]
    if unsure:
        yield Remark(
            "rank_guessed", "note",
            f"The files of rank {_list(unsure)} do not say which rank they are; it was taken from "
            "their names or order.",
            f"rank {_list(unsure)} 的文件没有说明自己的编号；编号取自文件名或顺序。", ("ranks",),
        )  # fmt: skip


def _one_time(ranks: Sequence[RankFacts]) -> Iterator[Remark]:
    """Recordings that share no moment cannot meet in a collective."""
    spans = []
    for facts in ranks:
        events = facts.timeline.events
        if len(facts.device):
            spans.append((int(events.start_ns[facts.device].min()),
                          int(events.end_ns[facts.device].max()), facts.rank))  # fmt: skip
    if len(spans) < 2:
        return
    latest, earliest = max(spans), min(spans, key=lambda span: span[1])
    if latest[0] >= earliest[1]:
        apart = seconds((latest[0] - earliest[1]) * 1e-9)
        yield Remark(
            "no_common_time", "doubt",
            f"Rank {latest[2]} begins {apart} after rank {earliest[2]} has ended: the recordings "
            "are of different times, or their clocks have different zeros.",
            f"rank {latest[2]} 在rank {earliest[2]} 结束 {apart} 之后才开始：这些记录的时间不同，"
            "或它们时钟的零点不同。",
            ("ranks",),
        )  # fmt: skip


def _clocks(match: Match) -> Iterator[Remark]:
    skewed = {
        rank: offset for rank, offset in match.offsets.items()
        if abs(offset.offset_ns) >= SKEW_NS and abs(offset.offset_ns) > 3 * offset.spread_ns
    }  # fmt: skip
    if skewed:
        worst = max(skewed, key=lambda rank: abs(skewed[rank].offset_ns))
        offset_ns = skewed[worst].offset_ns
        by = seconds(abs(offset_ns) * 1e-9)
        way, way_zh = ("ahead", "快") if offset_ns > 0 else ("behind", "慢")
        yield Remark(
            "clock_skew", "note",
            f"The ranks' clocks differ: that of rank {worst} runs {by} {way} (read off the ends "
            "of collectives). Waiting is computed with this corrected.",
            f"各进程的时钟不一致：rank {worst} 的时钟{way_zh} {by}（由集合通信的结束时刻得出）。"
            "等待时间已据此修正。",
            ("ranks",),
        )  # fmt: skip
    loose = {r: o for r, o in match.offsets.items() if o.spread_ns >= DRIFT_NS}
    if loose:
        worst = max(loose, key=lambda rank: loose[rank].spread_ns)
        by = seconds(loose[worst].spread_ns * 1e-9)
        yield Remark(
            "clock_drift", "doubt",
            f"Ends of the same collective vary between the ranks (rank {worst}: by {by} half of "
            "the time): clocks drift, or collectives are matched wrongly.",
            f"同一集合通信在各进程上的结束时刻不一致（rank {worst}：一半情况下相差 {by}）："
            "时钟漂移，或匹配有误。",
            ("ranks",),
        )  # fmt: skip


def _partners(match: Match) -> Iterator[Remark]:
    calls = match.calls
    if match.given_up:
        named = ", ".join(name or "unnamed" for name in match.given_up)
        yield Remark(
            "collectives_unmatched", "cannot" if match.count == 0 else "doubt",
            f"Collectives of {len(match.given_up)} groups ({named}) could not be matched across "
            "the ranks: the recording does not say who is in them, or ranks leave before others "
            "come.",
            f"{len(match.given_up)} 个组（{named}）的集合通信无法在各进程之间匹配：记录没有说明组"
            "成员，或有进程在其他进程到达之前就离开。",
            ("ranks",),
        )  # fmt: skip
    per_rank = np.bincount(calls.rank, minlength=len(calls.ranks))
    lonely = int(((match.id < 0) & ~match.alone).sum())
    if match.count and lonely >= UNMATCHED_SHARE * len(calls):
        low, high = int(per_rank.argmin()), int(per_rank.argmax())
        yield Remark(
            "collectives_differ", "note" if lonely < 0.5 * len(calls) else "doubt",
            f"{lonely} of {len(calls)} communication kernels ({percent(lonely / len(calls))}) have "
            f"no partner: rank {calls.ranks[low]} has {per_rank[low]} of them, rank "
            f"{calls.ranks[high]} {per_rank[high]}; the recordings begin or end at different "
            "places.",
            f"{len(calls)} 个通信内核中有 {lonely} 个（{percent(lonely / len(calls))}）没有对应者："
            f"rank {calls.ranks[low]} 有 {per_rank[low]} 个，rank {calls.ranks[high]} 有 "
            f"{per_rank[high]} 个；各记录的起止位置不同。",
            ("ranks",),
        )  # fmt: skip


def _list(numbers: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return shown + (", ..." if len(numbers) > most else "")
