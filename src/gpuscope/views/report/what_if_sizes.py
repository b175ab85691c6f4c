"""What if batch, sequence or dtype were others: each captured and predicted anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.explain.types import (
    Axis,
    Block,
    Cell,
    Column,
    Lines,
    Mark,
    Series,
    Table,
    Words,
)
from gpuscope.run import Run

_NAMES = {
    "batch": Words("batch", "批量"), "seq": Words("sequence length", "序列长度"),
    "dtype": Words("dtype", "精度"),
}


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
    name = _NAMES.get(varied.option, Words(varied.option, varied.option))
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
    return (Mark(Words("now", "现在"), x=float(points[at][0]), role="good"),)


def _throughput(points: list[tuple[int | str, Run]], name: Words, at: int | None) -> Lines:
    x = tuple(float(value) for value, _ in points)
    tokens = all(run.tokens for _, run in points)
    what = Words("tokens a second", "词元/秒") if tokens else Words("samples a second", "样本/秒")
    return Lines(
        Words(f"Throughput over {name.en}", f"吞吐量随{name.zh}变化"),
        Axis(name, log=True), Axis(what, "count"),
        (Series(what, x, tuple(_rate(run) for _, run in points), role="tensor"),),
        _marks(points, at),
        Words("Where the curve flattens, the device is full: a larger step only takes longer.",
              "曲线变平之处设备已满：再大的步骤只会更久。"),
    )  # fmt: skip


def _memory(points: list[tuple[int | str, Run]], name: Words, at: int | None) -> Lines:
    x = tuple(float(value) for value, _ in points)
    story = points[0][1].analysis.memory
    capacity = story.capacity_bytes if story is not None else None
    marks = list(_marks(points, at))
    if capacity:
        marks.append(Mark(Words("capacity", "容量"), y=float(capacity), role="bad"))
    peaks = tuple(
        None if run.peak_memory_bytes is None else float(run.peak_memory_bytes)
        for _, run in points
    )
    return Lines(
        Words(f"Peak memory over {name.en}", f"峰值显存随{name.zh}变化"),
        Axis(name, log=True), Axis(Words("peak memory", "峰值显存"), "bytes"),
        (Series(Words("allocated", "已分配"), x, peaks, role="memory"),), tuple(marks),
    )  # fmt: skip


def _table(points: list[tuple[int | str, Run]], name: Words, at: int | None) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for value, run in points:
        used = run.analysis.utilisation
        fits = {True: Words("yes", "是"), False: Words("no", "否"), None: None}[run.fits]
        rows.append((
            str(value), run.step_time_s, run.step_time_interval_s[0], run.step_time_interval_s[1],
            _rate(run), used.mfu if used is not None else None, run.peak_memory_bytes, fits,
        ))  # fmt: skip
    return Table(
        Words(f"The step over {name.en}", f"步骤随{name.zh}变化"),
        (
            Column(name), Column(Words("step", "步骤"), "s"), Column(Words("low", "下限"), "s"),
            Column(Words("high", "上限"), "s"),
            Column(Words("tokens (samples) a second", "词元（样本）/秒"), "count"),
            Column(Words("MFU", "MFU"), "share"), Column(Words("peak memory", "峰值显存"), "bytes"),
            Column(Words("fits", "放得下")),
        ),
        tuple(rows), () if at is None else (at,),
    )  # fmt: skip
