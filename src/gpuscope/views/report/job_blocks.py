"""A predicted job on the page: where each rank's step goes, and the mesh with its links."""

from __future__ import annotations

from gpuscope.analysis.job_types import JobRank, JobStory
from gpuscope.document.blocks import Bar, Bars, Block, Cell, Column, Paragraph, Part, Role, Table
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.run import Run
from gpuscope.views.terminal.job_panel import shown_rows
from gpuscope.views.terminal.mesh_picture import first_groups, link_of, means_s, short

_KINDS: tuple[tuple[str, Text, Role], ...] = (
    ("compute_s", Text("computing"), "compute"),
    ("exposed_s", Text("exposed communication"), "communication"),
    ("bubble_s", Text("pipeline bubble"), "waste"),
    ("imbalance_s", Text("waiting for other ranks"), "waiting"),
    ("idle_s", Text("device idle"), "idle"),
)


def job_blocks(run: Run) -> tuple[Block, ...]:
    """Return the figures of a job; () for anything else."""
    story = run.analysis.job
    if story is None:
        return ()
    limit = (Paragraph(story.limit, "key"),) if story.limit else ()
    mesh = (_mesh(run, story),) if story.mesh else ()
    return (*limit, _ranks(run, story), *mesh)


def _ranks(run: Run, story: JobStory) -> Bars:
    drawn = [story.ranks[at] for at in shown_rows(len(story.ranks))]
    return Bars(
        Text("The step of each rank"),
        "s",
        tuple(Bar(_who(rank, run), _parts(rank, story)) for rank in drawn),
        note=Text("Equal ranks are one bar. Exposed: data moves and no kernel runs."),
    )


def _who(rank: JobRank, run: Run) -> Text:
    members = next((r.members for r in run.rank_results if r.rank == rank.rank), (rank.rank,))
    if len(members) == 1:
        return Text("rank {rank}", rank=members[0])
    if members[-1] - members[0] + 1 == len(members):
        name = f"{members[0]}–{members[-1]}"
        return Text("ranks {ranks}", ranks=name)
    n = len(members) - 1
    return Text("rank {rank} and {n} more", rank=members[0], n=Number(n, ","))


def _parts(rank: JobRank, story: JobStory) -> tuple[Part, ...]:
    found = [
        Part(label, getattr(rank, field), role)
        for field, label, role in _KINDS
        if getattr(rank, field) > 0
    ]
    if story.chance_s > 0:
        found.append(Part(Text("waiting by chance"), story.chance_s, "tail"))
    return tuple(found)


def _mesh(run: Run, story: JobStory) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (name, size), ranks in zip(story.mesh, first_groups(story.mesh), strict=True):
        running, bare = means_s(story, name)
        link = link_of(ranks, run.place)
        rows.append((name, size, short(ranks), link, running, bare))
    columns = (
        Column(Text("dimension")),
        Column(Text("size"), "count"),
        Column(Text("a group of it")),
        Column(Text("talks over")),
        Column(Text("running"), "s"),
        Column(Text("not hidden"), "s"),
    )
    return Table(
        Text("The mesh"),
        columns,
        tuple(rows),
        note=Text("Times are means over all ranks; what is not hidden includes waiting."),
    )
