"""Maps of one request: which lane touches which sector, which lane meets which bank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.explain.types import Axis, HeatMap, Words
from gpuscope.lens.machine import Machine
from gpuscope.lens.requests import bank_passes, served_together
from gpuscope.lens.types import Access

_MOST_COLUMNS = 64

Row = list[float | None]


def _lanes(access: Access) -> tuple[str, ...]:
    return tuple(str(n) for n in range(len(access.sample.addresses)))


def _place(access: Access) -> Words:
    warp, block = access.sample.warp, access.sample.block
    return Words(
        f"line {access.line}, {access.array}: warp {warp} of block {block}",
        f"第 {access.line} 行 {access.array}：线程块 {block} 的第 {warp} 个线程束",
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
    cut = Words("", "")
    if len(used) > _MOST_COLUMNS:
        cut = Words(f" The first {_MOST_COLUMNS} are drawn.", f"只画出前 {_MOST_COLUMNS} 个。")
    return HeatMap(
        title=Words(f"Lanes and sectors: {where.en}", f"线程与扇区：{where.zh}"),
        x=Axis(
            Words(
                f"sector ({piece} bytes) of {access.array}",
                f"{access.array} 的扇区（{piece} 字节）",
            )
        ),
        y=Axis(Words("lane", "线程号")),
        values=tuple(tuple(row) for row in rows),
        classes=(
            Words("all bytes of the sector are used", "扇区字节全部用到"),
            Words("part of the sector is moved for nothing", "扇区有一部分白白搬运"),
        ),
        roles=("good", "waste"),
        x_labels=tuple(str(sector) for sector in sectors),
        y_labels=_lanes(access),
        note=Words(
            f"{len(used)} sectors move {len(used) * piece} bytes for {asked} asked for." + cut.en,
            f"{len(used)} 个扇区搬运 {len(used) * piece} 字节，其中用到 {asked} 字节。" + cut.zh,
        ),
    )  # fmt: skip


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
        title=Words(f"Lanes and banks: {where.en}", f"线程与存储体：{where.zh}"),
        x=Axis(Words(f"bank ({word_bytes} bytes wide)", f"存储体（宽 {word_bytes} 字节）")),
        y=Axis(Words("lane", "线程号")),
        values=tuple(tuple(row) for row in rows),
        classes=(
            Words("served in the first pass", "第一遍即得到服务"),
            Words("waits: its bank serves another word first", "等待：该存储体先服务别的字"),
        ),
        roles=("good", "bad"),
        x_labels=tuple(str(n) for n in range(banks)),
        y_labels=_lanes(access),
        note=Words(
            f"Up to {worst} words of one bank: {passes} passes, {ideal} without conflicts."
            if worst > 1 else f"No bank is asked for two words: passes: {passes}.",
            f"同一存储体最多 {worst} 个字：{passes} 遍，无冲突时 {ideal} 遍。"
            if worst > 1 else f"没有存储体被要求两个字：遍数为 {passes}。",
        ),
    )  # fmt: skip


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
