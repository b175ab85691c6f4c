"""A predicted job on the page: where each rank's step goes, and the mesh with its links."""

from __future__ import annotations

from gpuscope.analysis.job_types import JobRank, JobStory
from gpuscope.explain.types import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Paragraph,
    Part,
    Role,
    Table,
    Words,
)
from gpuscope.run import Run
from gpuscope.views.terminal.job_panel import shown_rows
from gpuscope.views.terminal.mesh_picture import first_groups, link_of, means_s, short

_KINDS: tuple[tuple[str, Words, Role], ...] = (
    ("compute_s", Words("computing", "计算"), "compute"),
    ("exposed_s", Words("exposed communication", "未被掩盖的通信"), "communication"),
    ("bubble_s", Words("pipeline bubble", "流水线气泡"), "waste"),
    ("imbalance_s", Words("waiting for other ranks", "等待其他进程"), "bad"),
    ("idle_s", Words("device idle", "设备空闲"), "idle"),
)


def job_blocks(run: Run) -> tuple[Block, ...]:
    """Return the figures of a job; () for anything else."""
    story = run.analysis.job
    if story is None:
        return ()
    limit = (Paragraph(Words(story.limit, story.limit_zh), "key"),) if story.limit else ()
    mesh = (_mesh(run, story),) if story.mesh else ()
    return (*limit, _ranks(run, story), *mesh)


def _ranks(run: Run, story: JobStory) -> Bars:
    drawn = [story.ranks[at] for at in shown_rows(len(story.ranks))]
    return Bars(
        Words("The step of each rank", "各 rank 的一步"), "s",
        tuple(Bar(_who(rank, run), _parts(rank, story)) for rank in drawn),
        note=Words(
            "Equal ranks are one bar. Exposed: data moves and the device does nothing else.",
            "相同的 rank 合为一条。未被掩盖：数据在传输而设备没有其他工作。",
        ),
    )  # fmt: skip


def _who(rank: JobRank, run: Run) -> Words:
    members = next((r.members for r in run.rank_results if r.rank == rank.rank), (rank.rank,))
    if len(members) == 1:
        return Words(f"rank {members[0]}", f"rank {members[0]}")
    if members[-1] - members[0] + 1 == len(members):
        name = f"{members[0]}–{members[-1]}"
        return Words(f"ranks {name}", f"rank {name}")
    n = len(members) - 1
    return Words(f"rank {members[0]} and {n:,} more", f"rank {members[0]} 等 {n:,} 个以上")


def _parts(rank: JobRank, story: JobStory) -> tuple[Part, ...]:
    found = [
        Part(label, getattr(rank, field), role) for field, label, role in _KINDS
        if getattr(rank, field) > 0
    ]  # fmt: skip
    if story.chance_s > 0:
        found.append(Part(Words("waiting by chance", "随机等待"), story.chance_s, "tail"))
    return tuple(found)


def _mesh(run: Run, story: JobStory) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (name, size), ranks in zip(story.mesh, first_groups(story.mesh), strict=True):
        running, bare = means_s(story, name)
        link = Words(link_of(ranks, run.place, "en"), link_of(ranks, run.place, "zh"))
        rows.append((name, size, short(ranks), link, running, bare))
    columns = (
        Column(Words("dimension", "维度")), Column(Words("size", "大小"), "count"),
        Column(Words("a group of it", "其中一组")), Column(Words("talks over", "所用链路")),
        Column(Words("running", "运行"), "s"), Column(Words("not hidden", "未掩盖"), "s"),
    )  # fmt: skip
    return Table(
        Words("The mesh", "设备网格"), columns, tuple(rows),
        note=Words("Times are means over all ranks; what is not hidden includes waiting.",
                   "时间为全部 rank 的平均；未掩盖部分含等待。"),
    )  # fmt: skip
