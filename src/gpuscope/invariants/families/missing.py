"""What is missing is None and shown as "not available", never 0."""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant
from gpuscope.timeline.types import DEVICE_KINDS


@invariant("missing")
def missing(output: Output, book: Book) -> None:
    """A zero stands only where something was seen to be zero."""
    run, analysis = output.run, output.run.analysis
    launches = analysis.launches
    if launches is not None and launches.kernels:
        known = launches.count > 0 or launches.unlinked > 0
        _not_zero("analysis.launches.count", known, book)
    for series in output.use["series"]:
        # Matrix units and links may do nothing; what runs at all needs multiprocessors and power.
        if series["key"] in ("sm", "power"):
            _not_zero(f"use.{series['key']}", any(series["values"]), book)
    if run.host_busy_s is not None and run.timeline.steps:
        hosted = bool((run.timeline.events.kind >= DEVICE_KINDS).any())
        _not_zero("host_busy_s", run.host_busy_s > 0 or not hosted, book)
    for name in ("energy_j", "peak_memory_bytes", "reserved_memory_bytes", "samples", "tokens"):
        _not_zero(name, getattr(run, name) != 0, book)
    for name in ("mfu", "hfu", "job_energy_j", "usd_per_step"):
        _not_zero(f"figures.{name}", output.figures[name] != 0, book)
    for share in (*analysis.kinds, *analysis.operators):
        _not_zero(f"best_s of {share.label}", share.best_s != 0 or share.time_s == 0, book)


def _not_zero(name: str, holds: bool, book: Book) -> None:
    what = Text("{row} that is not known", row=name)
    book.holds(what, holds, "0", Text("not available"))
