"""Nothing is busy longer than the step, and a length and its percentages use one window."""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant


@invariant("window")
def window(output: Output, book: Book) -> None:
    """Every time of a step, of its device, of a rank, of a unit, against the step."""
    _tables(output, book)
    _ranks(output, book)
    _steps(output, book)


def _within(name: str) -> Text:
    return Text("{row} within the step", row=name)


def _tables(output: Output, book: Book) -> None:
    run, analysis, step_s = output.run, output.run.analysis, output.run.analysis.step_s
    if step_s <= 0 or not analysis.time:
        return
    book.at_most(_within("device_busy_s"), run.device_busy_s, step_s)
    for table in (
        "classes",
        "kinds",
        "operators",
        "phases",
        "symbols",
        "modules",
        "tasks",
        "idle_spots",
        "copies",
    ):
        for row in getattr(analysis, table):
            name = getattr(row, "label", "") or getattr(row, "path", "") or table
            book.at_most(_within(f"analysis.{table}: {name}"), row.time_s, step_s)
    for finding in analysis.findings:
        book.at_most(_within(f"analysis.findings: {finding.kind}"), finding.max_gain_s, step_s)
    path = analysis.critical_path
    for kind, gain_s in path.gain_s.items() if path is not None else ():
        book.at_most(_within(f"analysis.critical_path.gain_s: {kind}"), gain_s, step_s)


def _ranks(output: Output, book: Book) -> None:
    """A rank of a predicted job does not work, talk or wait for longer than the step."""
    step_s = output.run.step_time_s
    for rank in output.run.rank_results:
        for name in ("device_busy_s", "communication_s", "exposed_communication_s"):
            what = _within(f"rank_results: {rank.rank}: {name}")
            book.at_most(what, getattr(rank, name), step_s)


def _steps(output: Output, book: Book) -> None:
    """The window of the curves is one step of the run."""
    use, run = output.document["use"], output.run
    if use is not None and output.predicted:
        length_s = (use["end_ns"] - use["start_ns"]) * 1e-9
        book.at_most(_within("use"), length_s, run.step_time_s)
    for rank, time in run.analysis.time.items():
        book.at_most(
            Text("{row} within the step", row=f"analysis.time[{rank}].communication_s"),
            time.communication_s,
            time.span_s,
        )
    _memory(output, book)


def _memory(output: Output, book: Book) -> None:
    """The memory curve lies on the device's clock, in the step of the rank whose memory it is."""
    curve, steps = output.document["memory_curve"], output.run.timeline.steps
    if curve is None or not curve["time_ns"] or not steps:
        return
    begin, end = min(step.start_ns for step in steps), max(step.end_ns for step in steps)
    first, last = curve["time_ns"][0], curve["time_ns"][-1]
    what = Text("{row} within the step", row="memory_curve")
    inside = begin <= first and last <= end
    book.holds(what, inside, f"{first} … {last} ns", f"{begin} … {end} ns")
