"""A kernel in a recording: how often it ran, how long, and how it was launched."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.launch_shape import LIMITS, launch_shape
from gpuscope.analysis.symbols import short_symbol
from gpuscope.document.blocks import Block, Column, Fact, Facts, Section, Table
from gpuscope.document.text import Text, joined
from gpuscope.errors import InvalidValueError
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
    totals = {
        n: int(events.duration_ns[device_rows][events.name[device_rows] == n].sum()) for n in chosen
    }
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
    listed = joined(near or list(known)[:4], "; ")
    why = Text("It has no device work.")
    if known:
        why = Text("Near ones: {names}.", names=listed)
        why = why if near else Text("The longest here: {names}.", names=listed)
    return InvalidValueError(
        Text("No kernel of {run} is named '{wanted}'.", run=run.name, wanted=wanted[:80]),
        why,
        Text("Type a part of a name that is there."),
    )


def trace_section(ran: Ran) -> Section:
    """Return how often and how long the kernel ran, and how it filled the device."""
    blocks: list[Block] = [Facts(_times(ran))]
    launches = _launches(ran)
    if launches is not None:
        blocks.append(launches)
    if ran.others:
        blocks.append(_others(ran))
    return Section(Text("In {run}", run=ran.run.name), tuple(blocks))


def _times(ran: Ran) -> tuple[Fact, ...]:
    events = ran.run.timeline.events
    spent = events.duration_ns[ran.rows] * 1e-9
    everything = events.duration_ns[events.kind < DEVICE_KINDS].sum() * 1e-9
    return (
        Fact(Text("launches"), len(ran.rows), "count", "measured"),
        Fact(Text("in all"), float(spent.sum()), "s", "measured"),
        Fact(
            Text("share of all device work"),
            float(spent.sum() / everything) if everything else None,
            "share",
            "measured",
        ),
        Fact(
            Text("median"),
            float(np.median(spent)),
            "s",
            "measured",
            low=float(np.quantile(spent, 0.1)),
            high=float(np.quantile(spent, 0.9)),
            note=Text("the middle 80 % of its launches"),
        ),
        Fact(Text("longest"), float(spent.max()), "s", "measured"),
    )


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
        rows.append(
            (
                int((inverse.ravel() == i).sum()),
                "×".join(map(str, key[0:3])),
                "×".join(map(str, key[3:6])),
                key[6] if key[6] >= 0 else None,
                float(key[7]) if key[7] >= 0 else None,
                waves,
                tail,
                occupancy,
                limit,
            )
        )
    return Table(
        Text("Its launches"),
        (
            Column(Text("launches"), "count"),
            Column(Text("grid")),
            Column(Text("block")),
            Column(Text("registers"), "count"),
            Column(Text("shared memory"), "bytes"),
            Column(Text("waves"), "count"),
            Column(Text("empty in the last wave"), "share"),
            Column(Text("occupancy"), "share"),
            Column(Text("limited by")),
        ),
        tuple(rows),
    )


def _device(run: Run) -> Device | None:
    return device(run.device_id) if run.device_id else None


def _others(ran: Ran) -> Table:
    rows = tuple((short_symbol(symbol), time_s) for symbol, time_s in ran.others[:_MOST_OTHERS])
    return Table(
        Text("Other kernels with this text in their name"),
        (Column(Text("kernel")), Column(Text("in all"), "s")),
        rows,
    )
