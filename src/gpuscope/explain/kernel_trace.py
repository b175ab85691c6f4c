"""A kernel in a recording: how often it ran, how long, and how it was launched."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.launch_shape import LIMITS, launch_shape
from gpuscope.analysis.symbols import short_symbol
from gpuscope.errors import InvalidValueError
from gpuscope.explain.types import Block, Column, Fact, Facts, Section, Table, Words
from gpuscope.hardware import Device, device
from gpuscope.run import Run
from gpuscope.timeline.types import DEVICE_KINDS, Ints

_MOST_OTHERS = 10
_MOST_LAUNCHES = 8


@dataclass(frozen=True, slots=True)
class Ran:
    """The events of one symbol in a recording.

    Attributes:
        run: the recording.
        symbol: the symbol, in full as the recording has it.
        rows: its events.
        others: other symbols that hold the wanted text too, with their total seconds.
    """

    run: Run
    symbol: str
    rows: Ints
    others: tuple[tuple[str, float], ...] = ()


def found_in(run: Run, wanted: str) -> Ran:
    """Return the events of a symbol, or of the symbol that holds `wanted` and ran longest.

    Raises:
        InvalidValueError: no device event holds it; near names are listed.
    """
    timeline, events = run.timeline, run.timeline.events
    device_rows = np.flatnonzero(events.kind < DEVICE_KINDS)
    names = np.unique(events.name[device_rows])
    exact = [n for n in names.tolist() if timeline.names[n] == wanted]
    chosen = exact or [n for n in names.tolist() if wanted.lower() in timeline.names[n].lower()]
    if not chosen:
        raise _no_kernel(run, wanted, names)
    totals = {n: int(events.duration_ns[device_rows][events.name[device_rows] == n].sum())
              for n in chosen}  # fmt: skip
    first, *rest = sorted(totals, key=lambda n: -totals[n])
    rows = device_rows[events.name[device_rows] == first]
    others = tuple((timeline.names[n], totals[n] * 1e-9) for n in rest)
    return Ran(run, timeline.names[first], rows, others)


def _no_kernel(run: Run, wanted: str, names: Ints) -> InvalidValueError:
    """Names the near ones, else those that ran longest."""
    events = run.timeline.events
    spent = np.bincount(events.name, events.duration_ns, len(run.timeline.names))
    longest = sorted(names.tolist(), key=lambda n: -spent[n])
    known = {short_symbol(run.timeline.names[n]): None for n in longest}
    near = difflib.get_close_matches(wanted, known, n=4, cutoff=0.5)
    listed = "Near ones: " if near else "The longest here: "
    return InvalidValueError(
        f"No kernel of {run.name} is named '{wanted[:80]}'.",
        listed + "; ".join(near or list(known)[:4]) + "." if known else "It has no device work.",
        "Type a part of a name that is there.",
    )


def trace_section(ran: Ran) -> Section:
    """Return how often and how long the kernel ran, and how it filled the device."""
    blocks: list[Block] = [Facts(_times(ran))]
    launches = _launches(ran)
    if launches is not None:
        blocks.append(launches)
    if ran.others:
        blocks.append(_others(ran))
    return Section(Words(f"In {ran.run.name}", f"在 {ran.run.name} 中"), tuple(blocks))


def _times(ran: Ran) -> tuple[Fact, ...]:
    events = ran.run.timeline.events
    spent = events.duration_ns[ran.rows] * 1e-9
    everything = events.duration_ns[events.kind < DEVICE_KINDS].sum() * 1e-9
    return (
        Fact(Words("launches", "启动次数"), len(ran.rows), "count", "measured"),
        Fact(Words("in all", "总时间"), float(spent.sum()), "s", "measured"),
        Fact(
            Words("share of all device work", "占全部设备工作"),
            float(spent.sum() / everything) if everything else None, "share", "measured",
        ),
        Fact(
            Words("median", "中位数"), float(np.median(spent)), "s", "measured",
            low=float(np.quantile(spent, 0.1)), high=float(np.quantile(spent, 0.9)),
            note=Words("the middle 80 % of its launches", "中间 80 % 的启动"),
        ),
        Fact(Words("longest", "最长"), float(spent.max()), "s", "measured"),
    )  # fmt: skip


def _launches(ran: Ran) -> Table | None:
    """Equal launches as one row: grid, block, registers, shared memory, and how they fill."""
    recorded = ran.run.timeline.recorded
    if recorded is None:
        return None
    at = np.searchsorted(recorded.event, ran.rows)
    at = at[(at < len(recorded.event))]
    at = at[np.isin(recorded.event[at], ran.rows)]
    if not len(at) or not (recorded.grid[at] > 0).any():
        return None
    shape = launch_shape(ran.run.timeline, _device(ran.run))
    keys = np.column_stack(
        (recorded.grid[at], recorded.block[at], recorded.registers[at], recorded.shared_bytes[at])
    )
    unique, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    spent = ran.run.timeline.events.duration_ns[recorded.event[at]]
    totals = np.bincount(inverse.ravel(), spent, len(unique))
    rows = []
    for i in np.argsort(-totals)[:_MOST_LAUNCHES].tolist():
        row, key = int(at[first[i]]), unique[i].tolist()
        waves, tail, occupancy, limit = (None, None, None, "")
        if shape is not None and not np.isnan(shape.waves[row]):
            waves, tail = float(shape.waves[row]), float(shape.tail_loss[row])
            occupancy, limit = float(shape.occupancy[row]), LIMITS[shape.limit[row]]
        rows.append((
            int((inverse.ravel() == i).sum()), "×".join(map(str, key[0:3])),
            "×".join(map(str, key[3:6])), key[6] if key[6] >= 0 else None,
            float(key[7]) if key[7] >= 0 else None, waves, tail, occupancy, limit,
        ))  # fmt: skip
    return Table(
        Words("Its launches", "各种启动配置"),
        (
            Column(Words("launches", "次数"), "count"), Column(Words("grid", "网格")),
            Column(Words("block", "线程块")), Column(Words("registers", "寄存器"), "count"),
            Column(Words("shared memory", "共享内存"), "bytes"),
            Column(Words("waves", "波次"), "count"),
            Column(Words("empty in the last wave", "尾波空闲"), "share"),
            Column(Words("occupancy", "占用率"), "share"), Column(Words("limit", "限制")),
        ),
        tuple(rows),
    )  # fmt: skip


def _device(run: Run) -> Device | None:
    return device(run.device_id) if run.device_id else None


def _others(ran: Ran) -> Table:
    rows = tuple((short_symbol(symbol), time_s) for symbol, time_s in ran.others[:_MOST_OTHERS])
    return Table(
        Words("Other kernels with this text in their name", "名称中同样含有该文本的其他内核"),
        (Column(Words("kernel", "内核")), Column(Words("in all", "总时间"), "s")), rows,
    )  # fmt: skip
