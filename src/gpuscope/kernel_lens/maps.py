"""Maps of one request: which lane touches which sector, which lane meets which bank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.document.blocks import Axis, HeatMap
from gpuscope.document.text import Text, sentences
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.requests import bank_passes, served_together
from gpuscope.kernel_lens.types import Access

_MOST_COLUMNS = 64

Row = list[float | None]


def _lanes(access: Access) -> tuple[str, ...]:
    return tuple(str(n) for n in range(len(access.sample.addresses)))


def _place(access: Access) -> Text:
    warp, block = access.sample.warp, access.sample.block
    return Text(
        "line {line}, {array}: warp {warp} of block {block}",
        line=access.line,
        array=access.array,
        warp=warp,
        block=str(block),
    )


def sector_map(access: Access, machine: Machine) -> HeatMap:
    """Which lane touches which sector, in the worst request to global memory.

    A sector is drawn as used where the request asks for all of its bytes, else as partly used.
    """
    piece = machine.sector_bytes
    used = _bytes_by_sector(access, piece)
    sectors = sorted(used)[:_MOST_COLUMNS]
    rows = _sector_rows(access, machine, used, sectors)
    where = _place(access)
    asked = sum(len(bytes_) for bytes_ in used.values())
    cut = None
    if len(used) > _MOST_COLUMNS:
        cut = Text("The first {columns} are drawn.", columns=_MOST_COLUMNS)
    return HeatMap(
        title=Text("Lanes and sectors: {where}", where=where),
        x=Axis(Text("sector ({piece} bytes) of {array}", piece=piece, array=access.array)),
        y=Axis(Text("lane")),
        values=tuple(tuple(row) for row in rows),
        classes=(
            Text("all bytes of the sector are used"),
            Text("part of the sector is moved for nothing"),
        ),
        roles=("good", "waste"),
        x_labels=tuple(str(sector) for sector in sectors),
        y_labels=_lanes(access),
        note=sentences(
            Text(
                "{sectors} sectors move {moved} bytes for {asked} asked for.",
                sectors=len(used),
                moved=len(used) * piece,
                asked=asked,
            ),
            cut,
        ),
    )


def _bytes_by_sector(access: Access, piece: int) -> dict[int, set[int]]:
    """The bytes of each sector that the request asks for."""
    used: dict[int, set[int]] = {}
    for address in access.sample.addresses:
        if address is not None:
            for byte in range(address, address + access.bytes_per_lane):
                used.setdefault(byte // piece, set()).add(byte)
    return used


def _sector_rows(
    access: Access, machine: Machine, used: dict[int, set[int]], sectors: list[int]
) -> list[Row]:
    """A row for each lane: 0 in sectors that are wholly used, 1 in others, None where it is not."""
    size, piece = access.bytes_per_lane, machine.sector_bytes
    column = {sector: n for n, sector in enumerate(sectors)}
    rows: list[Row] = []
    for address in access.sample.addresses:
        row: Row = [None] * len(sectors)
        if address is not None:
            for sector in range(address // piece, (address + size - 1) // piece + 1):
                if sector in column:
                    row[column[sector]] = float(len(used[sector]) < piece)
        rows.append(row)
    return rows


def bank_map(access: Access, machine: Machine) -> HeatMap:
    """Which lane meets which bank, in the worst request to shared memory.

    A lane's word is drawn as waiting where another word of the same bank is served before it.
    """
    banks, word_bytes, size = machine.banks, machine.bank_bytes, access.bytes_per_lane
    addresses = access.sample.addresses
    there = np.array([[a or 0 for a in addresses]], dtype=np.int64)
    active = np.array([[a is not None for a in addresses]])
    rules = (there, active, size, banks, word_bytes, machine.pairs_merge)
    group = int(served_together(*rules)[0])
    passes, worst, ideal = (int(counts[0]) for counts in bank_passes(*rules))
    rows: list[Row] = []
    for begin in range(0, len(addresses), group):
        rows += _group_rows(addresses[begin : begin + group], size, machine)
    where = _place(access)
    return HeatMap(
        title=Text("Lanes and banks: {where}", where=where),
        x=Axis(Text("bank ({word} bytes wide)", word=word_bytes)),
        y=Axis(Text("lane")),
        values=tuple(tuple(row) for row in rows),
        classes=(
            Text("served in the first pass"),
            Text("waits: its bank serves another word first"),
        ),
        roles=("good", "bad"),
        x_labels=tuple(str(n) for n in range(banks)),
        y_labels=_lanes(access),
        note=(
            Text(
                "Up to {worst} words of one bank: {passes} passes, {ideal} without conflicts.",
                worst=worst,
                passes=passes,
                ideal=ideal,
            )
            if worst > 1
            else Text("No bank is asked for two words: passes: {passes}.", passes=passes)
        ),
    )


def _group_rows(addresses: Sequence[int | None], size: int, machine: Machine) -> list[Row]:
    first: dict[int, int] = {}
    rows = []
    for address in addresses:
        row: Row = [None] * machine.banks
        if address is not None:
            for word in range(
                address // machine.bank_bytes, (address + size - 1) // machine.bank_bytes + 1
            ):
                bank = word % machine.banks
                row[bank] = float(first.setdefault(bank, word) != word)
        rows.append(row)
    return rows
