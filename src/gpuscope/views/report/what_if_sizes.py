"""What if batch, sequence or dtype were others: each captured and predicted anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.document.blocks import Axis, Block, Cell, Column, Lines, Mark, Series, Table
from gpuscope.document.text import Text, verbatim
from gpuscope.run import Run

_NAMES = {"batch": Text("batch"), "seq": Text("sequence length"), "dtype": Text("dtype")}


@dataclass(frozen=True, slots=True)
class Varied:
    """One option of the workload with several values, each predicted.

    Attributes:
        option: "batch", "seq" or "dtype".
        points: value and run; the run of the report itself may be among them.
    """

    option: str
    points: Sequence[tuple[int | str, Run]]


def size_blocks(varied: Varied, run: Run) -> tuple[Block, ...]:
    """Return throughput, time and memory over an option; nothing for fewer than two points."""
    points = list(varied.points)
    if len(points) < 2:
        return ()
    name = _NAMES.get(varied.option, verbatim(varied.option))
    at = next((i for i, (_, each) in enumerate(points) if each is run), None)
    blocks: list[Block] = []
    if all(isinstance(value, int) for value, _ in points):
        blocks += [_throughput(points, name, at), _memory(points, name, at)]
    return (*blocks, _table(points, name, at))


def _rate(run: Run) -> float | None:
    """Tokens a second, else samples a second."""
    work = run.tokens or run.samples
    return None if work is None or run.step_time_s <= 0 else work / run.step_time_s


def _marks(points: list[tuple[int | str, Run]], at: int | None) -> tuple[Mark, ...]:
    if at is None:
        return ()
    return (Mark(Text("now"), x=float(points[at][0]), role="good"),)


def _throughput(points: list[tuple[int | str, Run]], name: Text, at: int | None) -> Lines:
    x = tuple(float(value) for value, _ in points)
    tokens = all(run.tokens for _, run in points)
    what = Text("tokens a second") if tokens else Text("samples a second")
    return Lines(
        Text("Throughput over {name}", name=name),
        Axis(name, log=True),
        Axis(what, "count"),
        (Series(what, x, tuple(_rate(run) for _, run in points), role="tensor"),),
        _marks(points, at),
        Text("Where the curve flattens, the device is full: a larger step only takes longer."),
    )


def _memory(points: list[tuple[int | str, Run]], name: Text, at: int | None) -> Lines:
    x = tuple(float(value) for value, _ in points)
    story = points[0][1].analysis.memory
    capacity = story.capacity_bytes if story is not None else None
    marks = list(_marks(points, at))
    if capacity:
        marks.append(Mark(Text("capacity"), y=float(capacity), role="bad"))
    peaks = tuple(
        None if run.peak_memory_bytes is None else float(run.peak_memory_bytes) for _, run in points
    )
    return Lines(
        Text("Peak memory over {name}", name=name),
        Axis(name, log=True),
        Axis(Text("peak memory"), "bytes"),
        (Series(Text("allocated"), x, peaks, role="memory"),),
        tuple(marks),
    )


def _table(points: list[tuple[int | str, Run]], name: Text, at: int | None) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for value, run in points:
        used = run.analysis.utilisation
        fits = {True: Text("yes"), False: Text("no"), None: None}[run.fits]
        rows.append(
            (
                str(value),
                run.step_time_s,
                run.step_time_interval_s[0],
                run.step_time_interval_s[1],
                _rate(run),
                used.mfu if used is not None else None,
                run.peak_memory_bytes,
                fits,
            )
        )
    return Table(
        Text("The step over {name}", name=name),
        (
            Column(name),
            Column(Text("step"), "s"),
            Column(Text("low"), "s"),
            Column(Text("high"), "s"),
            Column(Text("tokens (samples) a second"), "count"),
            Column(verbatim("MFU"), "share"),
            Column(Text("peak memory"), "bytes"),
            Column(Text("fits")),
        ),
        tuple(rows),
        () if at is None else (at,),
    )
