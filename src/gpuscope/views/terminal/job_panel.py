"""A predicted job: where its step goes over all ranks, rank by rank, the mesh, the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from gpuscope.analysis.job_types import JobPart, JobRank, JobStory
from gpuscope.document import format as units
from gpuscope.document.blocks import Role
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render
from gpuscope.run import RankResult, Run
from gpuscope.views.i18n import tr
from gpuscope.views.palette import COLOURS
from gpuscope.views.terminal.layout import Bar, bars, left, right, section, table
from gpuscope.views.terminal.mesh_picture import mesh_picture
from gpuscope.views.terminal.rank_panel import communication
from gpuscope.views.terminal.schedule_picture import schedule_picture

MOST_ROWS = 16
"""Distinct ranks that are listed; of more, every so-manieth and the last."""

_ROLES: Mapping[str, Role] = {
    "compute": "compute",
    "exposed": "communication",
    "bubble": "waste",
    "imbalance": "waiting",
    "idle": "idle",
    "chance": "reference",
}


def job(run: Run, found: JobStory, lang: str) -> Iterator[RenderableType]:
    """The panels of a job, in reading order."""
    yield _parts(found, lang)
    yield _ranks(run, found, lang)
    if found.mesh:
        yield mesh_picture(run, found, lang)
    if any(group.pipeline for rank in found.ranks for group in rank.groups):
        picture = schedule_picture(run, found, lang)
        if picture is not None:
            yield picture
    sorts = run.analysis.ranks.sorts if run.analysis.ranks is not None else ()
    if not sorts and run.analysis.communication is not None:
        sorts = run.analysis.communication.sorts
    # A block of a folded pipeline has its collectives summed up: no single message to show. What
    # stages send each other is told as the bubble.
    sorts = tuple(s for s in sorts if "::" not in s.name and s.name not in ("send", "recv"))
    if sorts:
        yield communication(sorts, lang, job=True)


def part_label(part: JobPart, lang: str) -> str:
    """What a part of the step is called."""
    if part.kind == "exposed":
        return tr("exposed communication: {label}", lang, label=part.label or "?")
    return render(_LABELS[part.kind], lang)


_LABELS: Mapping[str, Said] = {
    "compute": Said("computing"),
    "bubble": Said("pipeline bubble"),
    "imbalance": Said("waiting for other ranks"),
    "idle": Said("device idle (host, start-up)"),
    "chance": Said("waiting by chance"),
}


def _parts(found: JobStory, lang: str) -> RenderableType:
    rows = table(left(), bars(), right(), right(), header=False)
    longest = max(part.time_s for part in found.parts)
    for part in found.parts:
        rows.add_row(
            part_label(part, lang),
            Bar(part.time_s / longest, 36, COLOURS[_ROLES[part.kind]]),
            units.time(part.time_s, lang),
            units.share(part.time_s / found.step_s, lang),
        )
    about = tr(
        "The mean over all {n} ranks. Exposed: data moves and no kernel runs; what "
        "runs beside kernels costs nothing here.",
        lang,
        n=f"{found.world_size:,}",
    )
    limit = render(found.limit, lang)
    said = (Text(limit, style="bold"), Text()) if limit else ()
    return section(tr("The job", lang), about, *said, rows)


def _ranks(run: Run, found: JobStory, lang: str) -> RenderableType:
    """One line a distinct rank, with what it waits and holds."""
    results = {result.rank: result for result in run.rank_results}
    kinds = [
        kind
        for kind in ("compute_s", "exposed_s", "bubble_s", "imbalance_s", "idle_s")
        if any(getattr(rank, kind) > 0 for rank in found.ranks)
    ]
    titles = {
        "compute_s": Said("computing"),
        "exposed_s": Said("exposed"),
        "bubble_s": Said("bubble"),
        "imbalance_s": Said("waiting"),
        "idle_s": Said("idle"),
    }
    hidden = [_hidden_s(rank) for rank in found.ranks]
    rows = table(
        Column(tr("ranks", lang), no_wrap=True),
        *(right(render(titles[kind], lang)) for kind in kinds),
        right(tr("hidden", lang)),
        right(tr("peak memory", lang)),
    )
    for at in shown_rows(len(found.ranks)):
        rank = found.ranks[at]
        rows.add_row(
            Text.assemble(who(rank, results, lang), (_place(rank, found), "dim")),
            *(units.time(getattr(rank, kind), lang) for kind in kinds),
            units.time(hidden[at], lang),
            _memory(results.get(rank.rank), lang),
        )
    about = tr("Equal ranks are one line. Hidden: communication under kernels.", lang)
    left_out = len(found.ranks) - len(shown_rows(len(found.ranks)))
    more = (Text(tr("and {n} more (see --json)", lang, n=left_out), style="dim"),)
    return section(tr("By rank", lang), about, rows, *(more if left_out else ()))


def _hidden_s(rank: JobRank) -> float:
    return sum(group.hidden_s for group in rank.groups)


def shown_rows(count: int) -> list[int]:
    """Which of many rows to show: all, or some evenly, the ends included."""
    if count <= MOST_ROWS:
        return list(range(count))
    return sorted({round(n * (count - 1) / (MOST_ROWS - 1)) for n in range(MOST_ROWS)})


def who(rank: JobRank, results: Mapping[int, RankResult], lang: str) -> str:
    """The ranks of a line: "0–1023", or "0 and 3 more" where they are scattered."""
    result = results.get(rank.rank)
    members: Sequence[int] = result.members if result is not None else (rank.rank,)
    if len(members) == 1:
        return str(members[0])
    if members[-1] - members[0] + 1 == len(members):
        return f"{members[0]}–{members[-1]}"
    return tr("{rank} and {n} more", lang, rank=members[0], n=f"{len(members) - 1:,}")


def _place(rank: JobRank, found: JobStory) -> str:
    """The coordinates that all ranks of the line share: those of the pipeline."""
    at = [
        f" {name} {where}"
        for (name, _), where in zip(found.mesh, rank.place, strict=False)
        if name == "pp"
    ]
    return "".join(at)


def _memory(result: RankResult | None, lang: str) -> Text:
    if result is None:
        return Text(tr("not available", lang))
    size = Text(units.size(result.peak_memory_bytes, lang))
    if not result.fits:
        size.stylize("bold red")
        size.append(" !")
    return size
