"""Many ranks: who works, who waits for whom, what communication costs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from gpuscope.analysis.recorded_types import (
    CollectiveCall,
    Communication,
    CommunicationSort,
    RankShare,
    RankSteps,
    RankStory,
    StepSpread,
)
from gpuscope.analysis.types import RankTime
from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.run import Run
from gpuscope.views.figures import short_operator
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import area, left, right, section, table
from gpuscope.views.words import WORDS, word

MOST_RANKS = 16
"""Ranks that are listed; of more, the ones at the ends of the scale."""


def times(run: Run, lang: str) -> RenderableType:
    """Exact time classes of each rank, from its first to its last device event."""
    rows = table(
        right(tr("rank", lang)),
        right(tr("span", lang)),
        right(tr("busy", lang)),
        right(),
        right(tr("computing", lang)),
        right(tr("communication", lang)),
        right(tr("not hidden", lang)),
        right(tr("overlapped", lang)),
        right(tr("copies", lang)),
        right(tr("idle", lang)),
    )
    shown = _shown(run.analysis.time)
    for rank in shown:
        time = run.analysis.time[rank]
        rows.add_row(
            str(rank),
            units.time(time.span_s, lang),
            units.time(time.busy_s, lang),
            units.share(time.busy_s / time.span_s if time.span_s else 0.0, lang),
            units.time(time.compute_s, lang),
            units.time(time.communication_s, lang),
            units.time(time.exposed_communication_s, lang),
            units.share(time.overlapped, lang) if time.communication_s > 0 else "",
            units.time(time.copy_s, lang),
            units.time(time.idle_s, lang),
        )
    about = tr(
        "From the first to the last device event of each rank; unions, so nothing counts twice.",
        lang,
    )
    parts: list[RenderableType] = [rows]
    if len(shown) < len(run.analysis.time):
        n = len(run.analysis.time) - len(shown)
        parts.append(Text(tr("and {n} more (see --json)", lang, n=n), style="dim"))
    return section(tr("By rank", lang), about, *parts)


def _shown(time: dict[int, RankTime] | object) -> list[int]:
    """All ranks where they fit; else those that compute longest and shortest, and the first."""
    assert hasattr(time, "items")
    ranks = sorted(rank for rank, _ in time.items())
    if len(ranks) <= MOST_RANKS:
        return ranks
    by_compute = sorted(ranks, key=lambda rank: time[rank].compute_s)  # type: ignore[index]
    half = MOST_RANKS // 2
    return sorted({ranks[0], *by_compute[: half - 1], *by_compute[-half:]})


def story(found: RankStory, lang: str) -> RenderableType:
    """Transfer against waiting, by rank, and the collectives that cost most waiting."""
    sentence = render(found.sentence, lang)
    about = tr(
        "A collective ends when its last rank has come: what the shortest of its kernels takes is "
        "transfer, the rest is waiting for that rank.",
        lang,
    )
    parts: list[RenderableType] = []
    if sentence:
        parts += [Text(sentence), Text()]
    parts.append(_shares(found, lang))
    if found.calls:
        parts += [Text(), _calls(found.calls[:5], lang)]
    if found.sorts:
        parts += [Text(), _sorts(found.sorts[:6], lang)]
    return section(tr("Who waits for whom", lang), about, *parts)


def _shares(found: RankStory, lang: str) -> RenderableType:
    rows = table(
        right(tr("rank", lang)),
        right(tr("computing", lang)),
        right(tr("transfer", lang)),
        right(tr("waiting", lang)),
        right(tr("made others wait", lang)),
        right(tr("came last", lang)),
        right(tr("host, a step", lang)),
        right(tr("clock", lang)),
    )
    worst = max((share.caused_s for share in found.ranks), default=0.0)
    for share in _chosen(found.ranks):
        style = "yellow" if worst > 0 and share.caused_s == worst else ""
        rows.add_row(
            str(share.rank),
            units.time(share.compute_s, lang),
            units.time(share.transfer_s, lang),
            units.time(share.waiting_s, lang),
            Text(units.time(share.caused_s, lang), style=style),
            units.count(share.times_last, lang),
            "" if share.host_s is None else units.time(share.host_s, lang),
            _clock(share, lang),
        )
    return rows


def _chosen(ranks: Sequence[RankShare]) -> list[RankShare]:
    """All where they fit, else those that cause most waiting."""
    if len(ranks) <= MOST_RANKS:
        return list(ranks)
    return sorted(ranks, key=lambda share: -share.caused_s)[:MOST_RANKS]


def _clock(share: RankShare, lang: str) -> str:
    if share.clock_offset_s is None:
        return ""
    if share.clock_offset_s == 0:
        return "0"
    sign = "+" if share.clock_offset_s > 0 else "−"
    return sign + units.time(abs(share.clock_offset_s), lang)


def _calls(calls: Sequence[CollectiveCall], lang: str) -> RenderableType:
    rows = table(
        left(tr("most waiting in", lang)),
        right(tr("waiting", lang)),
        right(tr("transfer", lang)),
        right(tr("last rank", lang)),
        right(tr("late by", lang)),
        left(tr("because", lang)),
    )
    for call in calls:
        reason = Text(word(call.reason, lang))
        if call.instead:
            what = short_operator(call.instead)
            reason.append(f" · {what} {units.time(call.instead_s, lang)}", style="dim")
        rows.add_row(
            f"{call.name} #{call.number}",
            units.time(call.waiting_s, lang),
            units.time(call.transfer_s, lang),
            str(call.last),
            units.time(call.late_s, lang),
            reason,
        )
    return rows


def _sorts(sorts: Sequence[CommunicationSort], lang: str) -> RenderableType:
    rows = table(
        left(tr("collective", lang)),
        right(tr("count", lang)),
        right(tr("message", lang)),
        right(tr("time", lang)),
        right(tr("transfer, each", lang)),
        right(tr("waiting", lang)),
        right(tr("bus bandwidth", lang)),
    )
    for sort in sorts:
        at_least = "≥ " if sort.is_lower_bound else ""
        rate = sort.bus_bytes_per_s
        size = f" ×{sort.group_size}" if sort.group_size else ""
        rows.add_row(
            Text.assemble(sort.name, (f"{size} {sort.dtype}".rstrip(), "dim")),
            units.count(sort.count, lang),
            "" if sort.message_bytes is None else units.size(sort.message_bytes, lang),
            units.time(sort.time_s, lang),
            units.time(sort.transfer_s, lang),
            "" if sort.waiting_s is None else units.time(sort.waiting_s, lang),
            "" if rate is None else at_least + units.byte_rate(rate, lang),
        )
    return rows


def communication(
    sorts: Sequence[CommunicationSort],
    lang: str,
    *,
    job: bool = False,
    talk: Communication | None = None,
) -> RenderableType:
    """Communication of a single rank: waiting is what is beyond the expected time.

    Of a predicted `job` waiting is known: equal ranks come at one time.
    """
    about = (
        ""
        if job
        else tr(
            "One rank alone: what a collective takes beyond the time that its bytes need is taken "
            "as waiting for other ranks; bandwidths are lower bounds.",
            lang,
        )
    )
    said = [] if talk is None else [Text(_overlap(talk, lang)), Text()]
    return section(tr("Communication", lang), about, *said, _sorts(sorts[:10], lang))


def _overlap(talk: Communication, lang: str) -> str:
    """How much of the communication runs beside computation."""
    return tr(
        "Communication runs for {busy}, {share} of it beside computation; {exposed} is not hidden.",
        lang,
        busy=units.time(talk.busy_s, lang),
        share=units.share(talk.overlapped, lang),
        exposed=units.time(talk.exposed_s, lang),
    )


def steps(found: StepSpread, lang: str) -> RenderableType:
    """Step times, how they spread, and what was longer in the slow ones."""
    first = found.ranks[0]
    sentence = tr(
        "{n} steps: median {median}, {fastest} to {slowest}; the middle 80 % spread over {spread} "
        "of the median.",
        lang,
        n=len(first.times_s),
        median=units.time(first.median_s, lang),
        fastest=units.time(first.fastest_s, lang),
        slowest=units.time(first.slowest_s, lang),
        spread=units.share(first.spread, lang),
    )
    parts: list[RenderableType] = [Text(sentence)]
    if len(first.times_s) > 3:
        parts.append(Text(area(first.times_s[:72], 3), style="blue"))
    if first.slow:
        parts += [Text(), _slow(first, lang)]
    return section(tr("How steps differ", lang), "", Group(*parts))


def _slow(found: RankSteps, lang: str) -> RenderableType:
    rows = table(
        right(tr("slow step", lang)),
        right(tr("time", lang)),
        right(tr("extra", lang)),
        left(tr("what was longer", lang)),
    )
    for step in found.slow[:3]:
        causes = step.causes or step.parts
        named = tr(", ", lang).join(
            f"{_cause(name, lang)} +{units.time(extra, lang)}" for name, extra in causes[:3]
        )
        rows.add_row(
            str(step.number), units.time(step.time_s, lang), units.time(step.extra_s, lang), named
        )
    return rows


def _cause(name: str, lang: str) -> str:
    """An operator's name, or a part of the step in words."""
    return word(name, lang) if name in WORDS else short_operator(name)
