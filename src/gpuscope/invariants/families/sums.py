"""Parts add up to their whole, in every table and every dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpuscope.analysis.breakdown import CLASSES, COMMUNICATED, IDLE_PREFIX, MOVING, WAITING
from gpuscope.analysis.job_types import JobRank
from gpuscope.analysis.steps import CHANCE
from gpuscope.document.blocks import Bars
from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant


@invariant("sums")
def sums(output: Output, book: Book) -> None:
    """Every table of a run and of its page against the whole that it is the parts of."""
    _breakdowns(output, book)
    _idle(output, book)
    _classes_of_ranks(output, book)
    _modules(output, book)
    _path(output, book)
    _job(output, book)
    _stores(output, book)
    _communication(output, book)
    _page(output, book)
    _comparisons(output, book)


def _rows(table: str, whole: str) -> Text:
    return Text("the rows of {table} and {whole}", table=table, whole=whole)


def _breakdowns(output: Output, book: Book) -> None:
    analysis = output.run.analysis
    if not analysis.classes:
        return
    book.sums(
        _rows("analysis.classes", "analysis.step_s"),
        (share.time_s for share in analysis.classes),
        analysis.step_s,
    )
    for table in ("kinds", "operators", "phases", "symbols"):
        rows = getattr(analysis, table)
        if rows:
            whole = _rows(f"analysis.{table}", "analysis.classes")
            book.sums(whole, (share.time_s for share in rows), output.busy_s)


def _idle(output: Output, book: Book) -> None:
    analysis = output.run.analysis
    causes = {
        share.label.removeprefix(IDLE_PREFIX): share.time_s
        for share in analysis.classes
        if share.label.startswith(IDLE_PREFIX)
    }
    if not analysis.idle_spots and not causes:
        return
    for cause in dict.fromkeys((*causes, *(spot.cause for spot in analysis.idle_spots))):
        spots = (spot.time_s for spot in analysis.idle_spots if spot.cause == cause)
        what = _rows(f"analysis.idle_spots: {cause}", f"analysis.classes: idle: {cause}")
        book.sums(what, spots, causes.get(cause, 0.0))


def _classes_of_ranks(output: Output, book: Book) -> None:
    for rank, time in output.run.analysis.time.items():
        name = f"analysis.time[{rank}]"
        book.sums(
            _rows(f"{name}: busy_s, idle_s", "span_s"), (time.busy_s, time.idle_s), time.span_s
        )
        book.sums(
            _rows(f"{name}.idle_by_cause", "idle_s"), time.idle_by_cause.values(), time.idle_s
        )
        kernels_s = time.compute_s + time.exposed_communication_s
        book.at_most(
            _rows(f"{name}: compute_s, exposed_communication_s", "busy_s"), kernels_s, time.busy_s
        )
        book.at_most(
            _rows(f"{name}: busy_s", "compute_s, exposed_communication_s, copy_s"),
            time.busy_s,
            kernels_s + time.copy_s,
        )
        book.at_most(
            _rows(f"{name}.exposed_communication_s", "communication_s"),
            time.exposed_communication_s,
            time.communication_s,
        )


def _modules(output: Output, book: Book) -> None:
    modules = output.run.analysis.modules
    if modules:
        roots = (module.time_s for module in modules if module.depth == 0)
        book.sums(_rows("analysis.modules", "analysis.classes"), roots, output.busy_s)
    children: dict[int, list[float]] = {}
    above: list[int] = []
    for at, module in enumerate(modules):
        del above[module.depth :]
        if above:
            children.setdefault(above[-1], []).append(module.time_s)
        above.append(at)
    for at, module in enumerate(modules):
        parts = (module.self_s, *children.get(at, ()))
        book.sums(
            _rows(f"analysis.modules below {module.path or '-'}", "time_s"), parts, module.time_s
        )
        passes = module.forward_s + module.backward_s
        book.at_most(
            _rows(f"analysis.modules {module.path or '-'}: forward_s, backward_s", "time_s"),
            passes,
            module.time_s,
        )


def _path(output: Output, book: Book) -> None:
    path = output.run.analysis.critical_path
    if path is None:
        return
    window_s = (path.end_ns - path.start_ns) * 1e-9 / path.steps
    # What a job waits for by chance comes after the window: no timeline of equal ranks shows it.
    seen = (time_s for kind, time_s in path.time_s.items() if kind != CHANCE)
    book.sums(_rows("analysis.critical_path.time_s", "end_ns - start_ns"), seen, window_s)
    for kind, time_s in path.time_s.items():
        named = math.fsum(share.time_s for share in path.shares if share.kind == kind)
        book.at_most(_rows(f"analysis.critical_path.shares: {kind}", "time_s"), named, time_s)


_RANK_PARTS = ("compute_s", "exposed_s", "bubble_s", "imbalance_s", "idle_s")


def _job(output: Output, book: Book) -> None:
    job = output.run.analysis.job
    if job is None:
        return
    book.sums(
        _rows("analysis.job.parts", "step_s"), (part.time_s for part in job.parts), job.step_s
    )
    for rank in job.ranks:
        parts = (*(getattr(rank, name) for name in _RANK_PARTS), job.chance_s)
        book.sums(_rows(f"analysis.job.ranks[{rank.rank}], chance_s", "step_s"), parts, job.step_s)
        _groups(rank, book)
        if rank.rank == output.rank:
            _talk_of_a_rank(output, rank, book)


def _talk_of_a_rank(output: Output, rank: JobRank, book: Book) -> None:
    """What a rank communicates and waits: the step's classes and the job say the same."""
    found = {
        label: math.fsum(
            share.time_s for share in output.run.analysis.classes if share.label == label
        )
        for label in (CLASSES[COMMUNICATED], WAITING, MOVING)
    }
    name = f"analysis.job.ranks[{rank.rank}]"
    for what, shown, told in (
        ("exposed_s", found[CLASSES[COMMUNICATED]] + found[MOVING], rank.exposed_s),
        ("bubble_s, imbalance_s", found[WAITING], rank.bubble_s + rank.imbalance_s),
    ):
        if not found[CLASSES[COMMUNICATED]] or not rank.bubble_s + rank.imbalance_s:
            rows = _rows(f"{name}: {what}", "analysis.classes: communication")
            book.same(rows, told, shown, within=0.01)


def _groups(rank: JobRank, book: Book) -> None:
    name = f"analysis.job.ranks[{rank.rank}]"
    exposed = (group.exposed_s for group in rank.groups)
    book.sums(_rows(f"{name}.groups: exposed_s", "exposed_s"), exposed, rank.exposed_s)
    waiting = (group.waiting_s for group in rank.groups)
    book.sums(
        _rows(f"{name}.groups: waiting_s", "bubble_s, imbalance_s"),
        waiting,
        rank.bubble_s + rank.imbalance_s,
    )
    for group in rank.groups:
        bare = group.hidden_s + group.exposed_s + group.waiting_s
        book.at_most(
            _rows(f"{name}.groups {group.label}: hidden_s, exposed_s, waiting_s", "running_s"),
            bare,
            group.running_s,
        )


def _stores(output: Output, book: Book) -> None:
    """Energy and memory."""
    analysis = output.run.analysis
    energy, memory = analysis.energy, analysis.memory
    if energy is not None and energy.total_j is not None:
        parts = (energy.idle_j, energy.active_j, energy.compute_j, energy.memory_j)
        book.sums(
            _rows("analysis.energy: idle_j, active_j, compute_j, memory_j", "total_j"),
            (part or 0.0 for part in parts),
            energy.total_j,
            "J",
        )
    if memory is not None and memory.at_peak:
        book.sums(
            _rows("analysis.memory.at_peak", "peak_bytes"),
            memory.at_peak.values(),
            memory.peak_bytes,
            "bytes",
        )
    if memory is not None and memory.allocated_bytes:
        book.same(
            _rows("analysis.memory.allocated_bytes", "peak_bytes"),
            max(memory.allocated_bytes),
            memory.peak_bytes,
            "bytes",
        )


def _communication(output: Output, book: Book) -> None:
    analysis = output.run.analysis
    talk, story = analysis.communication, analysis.ranks
    if talk is not None:
        name = "analysis.communication"
        book.sums(_rows(f"{name}.sorts", "kernel_s"), (s.time_s for s in talk.sorts), talk.kernel_s)
        book.sums(
            _rows(f"{name}.sorts: count", "count"),
            (s.count for s in talk.sorts),
            talk.count,
            "count",
        )
        book.at_most(_rows(f"{name}.busy_s", "kernel_s"), talk.busy_s, talk.kernel_s)
        book.at_most(_rows(f"{name}.exposed_s", "busy_s"), talk.exposed_s, talk.busy_s)
    if story is None:
        return
    waiting_s = story.waiting_s
    book.sums(
        _rows("analysis.ranks.waiting_by_reason", "waiting_s"),
        story.waiting_by_reason.values(),
        waiting_s,
    )
    book.sums(_rows("analysis.ranks.causes", "waiting_s"), (c[2] for c in story.causes), waiting_s)
    book.sums(
        _rows("analysis.ranks.ranks: caused_s", "waiting_s"),
        (share.caused_s for share in story.ranks),
        waiting_s,
    )


def _page(output: Output, book: Book) -> None:
    document = output.document
    for gaps in document["idle_gaps"]:
        rank = output.run.analysis.time.get(gaps["rank"])
        if rank is None:  # of a rank that only the timeline has, nothing is told
            continue
        parts = [*(ns * 1e-9 for ns in gaps["duration_ns"]), gaps["left_out_ns"] * 1e-9]
        whole = _rows(f"idle_gaps[{gaps['rank']}]", "analysis.time.idle_s")
        book.sums(whole, parts, rank.idle_s)
    use = output.use
    for series in use["series"]:
        if series["unit"] in ("bytes/s", "W"):
            step_s = (use["end_ns"] - use["start_ns"]) * 1e-9
            held = math.fsum(series["values"]) / use["bins"] * step_s
            unit = "J" if series["unit"] == "W" else "bytes"
            book.same(
                _rows(f"use.{series['key']}", "total"), held, series["total"], unit, within=1e-6
            )
    curve, memory = document["memory_curve"], output.run.analysis.memory
    if curve is not None and memory is not None:
        highest = max(map(sum, zip(*curve["allocated_bytes"], strict=True)), default=0)
        book.same(
            _rows("memory_curve", "analysis.memory.peak_bytes"), highest, memory.peak_bytes, "bytes"
        )
    roots = [module["time_s"] for module in document["modules_folded"] if module["depth"] == 0]
    if roots:
        book.sums(_rows("modules_folded", "analysis.classes"), roots, output.busy_s)
    _pictures(output, book)


def _pictures(output: Output, book: Book) -> None:
    """The picture of the step by class adds up to the step."""
    bars = [picture for picture in output.pictures if isinstance(picture, Bars)]
    if bars and output.run.analysis.classes:
        drawn = (part.value for bar in bars[0].bars for part in bar.parts)
        book.sums(_rows("--figures: classes", "analysis.step_s"), drawn, output.run.analysis.step_s)


def _comparisons(output: Output, book: Book) -> None:
    for compared in output.page["comparisons"]:
        for table in ("classes", "kinds", "operators", "phases", "modules"):
            rows: Iterable[float] = [row["difference_s"] for row in compared[table]]
            if compared[table]:
                what = _rows(f"comparison.{table}", "difference_s")
                book.same(
                    what,
                    math.fsum(rows),
                    compared["difference_s"],
                    grain=1e-9 * max(compared["a_s"], compared["b_s"]) + 1e-9,
                )
