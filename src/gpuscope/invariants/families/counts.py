"""Counts agree wherever something is counted, and the largest of a sort is one of them."""

from __future__ import annotations

import math

from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant


@invariant("counts")
def counts(output: Output, book: Book) -> None:
    """Launches, calls, kernels, ranks; the longest idle gap against all of them."""
    _launches(output, book)
    _idle(output, book)
    _ranks(output, book)


def _same(one: str, other: str) -> Text:
    return Text("{one} and {other}", one=one, other=other)


def _launches(output: Output, book: Book) -> None:
    analysis = output.run.analysis
    found = analysis.launches
    families = sum(share.count for share in analysis.kinds)
    operators = sum(share.count for share in analysis.operators)
    if analysis.kinds and analysis.operators and output.predicted:
        book.same(
            _same("analysis.kinds: count", "analysis.operators: count"),
            families,
            operators,
            "count",
        )
    if found is None:
        return
    threads = sum(thread.count for thread in found.threads)
    book.same(
        _same("analysis.launches.threads: count", "count"),
        threads,
        found.count,
        "count",
        grain=len(found.threads),
    )
    if not output.predicted:
        return
    # Every kernel, copy and memset of a prediction is a launch, but for those of a graph.
    each = found.graph_launches * ((found.kernels_per_graph or 0.0) - 1.0)
    book.same(
        _same("analysis.launches.count", "analysis.kinds: count"),
        found.count + each,
        families,
        "count",
        grain=1.0,
    )


def _idle(output: Output, book: Book) -> None:
    analysis, steps = output.run.analysis, max(1, _steps(output))
    total_s = output.idle_s * steps
    for spot in analysis.idle_spots:
        name = f"analysis.idle_spots: {spot.cause}"
        book.at_most(_same(f"{name}: longest_s", "all idle"), spot.longest_s, total_s)
        # What recording added is taken out of the sum, not out of one gap.
        longest_s = spot.longest_s if output.predicted else 0.0
        book.at_most(_same(f"{name}: longest_s", "time_s"), longest_s, spot.time_s * steps)
        if output.predicted:
            most_s = spot.longest_s * max(spot.count, 1) * (1.0 + 1.0 / max(spot.count, 1))
            book.at_most(_same(f"{name}: time_s", "count, longest_s"), spot.time_s, most_s)


def _steps(output: Output) -> int:
    path = output.run.analysis.critical_path
    return path.steps if path is not None else 1


def _ranks(output: Output, book: Book) -> None:
    run, job = output.run, output.run.analysis.job
    if run.rank_results:
        members = sum(len(rank.members) for rank in run.rank_results)
        book.same(_same("rank_results: members", "world_size"), members, run.world_size, "count")
        book.same(
            _same("figures.devices", "world_size"),
            output.figures["devices"],
            run.world_size,
            "count",
        )
    if job is not None:
        book.same(
            _same("analysis.job.ranks: count", "world_size"),
            math.fsum(rank.count for rank in job.ranks),
            run.world_size,
            "count",
        )
