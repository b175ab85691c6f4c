"""A matrix kernel's tile on a device: how many blocks fit at once, and how products fill waves."""

from __future__ import annotations

import math

import numpy as np

from gpuscope.analysis.launch_shape import resident_blocks
from gpuscope.document.blocks import (
    Axis,
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Lines,
    Section,
    Series,
    Table,
)
from gpuscope.document.text import Text
from gpuscope.explanation.kernel_names import KernelName
from gpuscope.hardware import Device, parse_target

_SIDES = (1024, 2048, 3072, 4096, 6144, 8192)
"""Sides of the square results that are counted."""

_STEP = 64
"""Between the sides of the curve."""

_LARGEST = 1 << 16
"""Beyond any side of a tile, number of stages or of a block's threads."""

_MATRIX = ("gemm", "nvjet", "Cijk_")


def tile_section(read: KernelName, on: str) -> Section | None:
    """Return what a known tile means on a device; None for other kernels.

    A block holds `stages` tiles of both inputs in shared memory; as many blocks run on a
    multiprocessor as find room there. Blocks of a result are counted as M x N over the tile.
    """
    if len(read.tile) < 2 or not any(word in read.symbol for word in _MATRIX):
        return None
    parts = (*read.tile, read.stages or 1, read.threads or 1)
    if min(parts) < 1 or max(parts) > _LARGEST:  # a name that no library makes
        return None
    chosen = parse_target(on).device
    if not chosen.compute_units:
        return None
    fitting = _resident(read, chosen)
    at_once = chosen.compute_units * fitting
    facts: list[Block] = [Facts(tuple(_facts(read, chosen, fitting, at_once)))]
    return Section(
        Text("On {chosen}", chosen=chosen.name),
        (*facts, _waves(read, at_once), _curve(read, at_once)),
    )


def _shared_bytes(read: KernelName) -> int | None:
    """What the tiles of A and B take in shared memory; None where a part is not known."""
    if len(read.tile) < 3 or read.stages is None or read.input_bits is None:
        return None
    m, n, k = read.tile[:3]
    return (m + n) * k * read.input_bits // 8 * read.stages


def _resident(read: KernelName, chosen: Device) -> int:
    """Blocks that run on a multiprocessor at once; 1 where too little is known."""
    shared = _shared_bytes(read)
    if shared is None or not chosen.max_threads_per_unit:
        return 1
    threads = np.array([read.threads or 128], np.int64)
    fitting, _ = resident_blocks(
        chosen, threads, np.array([-1], np.int64), np.array([shared], np.int64)
    )
    return max(1, int(fitting[0]))


def _facts(read: KernelName, chosen: Device, fitting: int, at_once: int) -> list[Fact]:
    m, n = read.tile[:2]
    shared = _shared_bytes(read)
    facts = [
        Fact(
            Text("multiprocessors"),
            chosen.compute_units,
            "count",
            chosen.origin("compute_units") or "",
        ),
        Fact(
            Text("shared memory of a block"),
            shared,
            "bytes",
            "computed" if shared is not None else "",
            note=None
            if shared is None
            else Text(
                "({m} + {n}) × {tile} × {input_bits} bits × {stages} stages",
                m=m,
                n=n,
                tile=read.tile[2],
                input_bits=read.input_bits,
                stages=read.stages,
            ),
        ),
        Fact(
            Text("blocks on a multiprocessor"),
            fitting,
            "count",
            "estimated",
            note=None
            if shared is not None
            else Text("assumed: the name does not tell the shared memory"),
        ),
        Fact(Text("blocks of one wave"), at_once, "count", "computed"),
    ]
    intensity = m * n / (m + n)
    if read.input_bits:
        facts.append(
            Fact(
                Text("arithmetic for each byte of the tiles"),
                2 * intensity / (read.input_bits / 8),
                "flop/byte",
                "computed",
                note=Text("2 M N / ((M + N) × bytes of an element)"),
            )
        )
    return facts


def _use(side: int, m: int, n: int, at_once: int) -> tuple[int, float, float]:
    """Blocks and waves of a square result, and the share of the slots that does useful work."""
    blocks = math.ceil(side / m) * math.ceil(side / n)
    waves = blocks / at_once
    return blocks, waves, side * side / (math.ceil(waves) * at_once * m * n)


def _curve(read: KernelName, at_once: int) -> Lines:
    """The same for every size: each wave more is a cliff."""
    m, n = read.tile[:2]
    sides = range(_STEP, _SIDES[-1] + 1, _STEP)
    used = Series(
        Text("useful"),
        tuple(map(float, sides)),
        tuple(_use(side, m, n, at_once)[2] for side in sides),
        role="compute",
    )
    return Lines(
        Text("Use of the device by the size of a square result"),
        Axis(Text("side")),
        Axis(Text("slots that do useful work"), "share"),
        (used,),
        note=Text("Where it falls, one block too many begins a new wave."),
    )


def _waves(read: KernelName, at_once: int) -> Table:
    m, n = read.tile[:2]
    rows: list[tuple[Cell, ...]] = []
    best, best_use = 0, 0.0
    for side in _SIDES:
        blocks, waves, used = _use(side, m, n, at_once)
        if used > best_use:
            best, best_use = len(rows), used
        rows.append((f"{side} × {side}", blocks, waves, used))
    return Table(
        Text("Square results in waves of this tile"),
        (
            Column(Text("result")),
            Column(Text("blocks"), "count"),
            Column(Text("waves"), "count"),
            Column(Text("of the slots does useful work"), "share"),
        ),
        tuple(rows),
        (best,),
        Text(
            "K not split. What is missing to 100 % are empty places of the last wave and of tiles "
            "at the edge."
        ),
    )
