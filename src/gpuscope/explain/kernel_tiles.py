"""A matrix kernel's tile on a device: how many blocks fit at once, and how products fill waves."""

from __future__ import annotations

import math

import numpy as np

from gpuscope.analysis.launch_shape import resident_blocks
from gpuscope.explain.kernel_names import KernelName
from gpuscope.explain.types import (
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
    Words,
)
from gpuscope.hardware import Device, parse_target

_SIDES = (1024, 2048, 3072, 4096, 6144, 8192)
"""Sides of the square results that are counted."""

_STEP = 64
"""Between the sides of the curve."""

_MATRIX = ("gemm", "nvjet", "Cijk_")


def tile_section(read: KernelName, on: str) -> Section | None:
    """Return what a known tile means on a device; None for other kernels.

    A block holds `stages` tiles of both inputs in shared memory; as many blocks run on a
    multiprocessor as find room there. Blocks of a result are counted as M x N over the tile.
    """
    if len(read.tile) < 2 or not any(word in read.symbol for word in _MATRIX):
        return None
    if min(read.tile) < 1:  # a name that no library makes
        return None
    chosen = parse_target(on).device
    if not chosen.compute_units:
        return None
    fitting = _resident(read, chosen)
    at_once = chosen.compute_units * fitting
    facts: list[Block] = [Facts(tuple(_facts(read, chosen, fitting, at_once)))]
    return Section(
        Words(f"On {chosen.name}", f"在 {chosen.name} 上"),
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
        Fact(Words("multiprocessors", "多处理器数"), chosen.compute_units, "count", "datasheet"),
        Fact(
            Words("shared memory of a block", "每块的共享内存"), shared, "bytes",
            "computed" if shared is not None else "",
            note=None if shared is None else Words(
                f"({m} + {n}) × {read.tile[2]} × {read.input_bits} bits × {read.stages} stages",
                f"({m} + {n}) × {read.tile[2]} × {read.input_bits} 位 × {read.stages} 级",
            ),
        ),
        Fact(
            Words("blocks on a multiprocessor", "每个多处理器的线程块"), fitting, "count",
            "estimated",
            note=None if shared is not None else Words(
                "assumed: the name does not tell the shared memory",
                "假设值：名称未给出共享内存用量",
            ),
        ),
        Fact(Words("blocks of one wave", "一个波次的线程块"), at_once, "count", "computed"),
    ]  # fmt: skip
    intensity = m * n / (m + n)
    if read.input_bits:
        facts.append(
            Fact(
                Words("arithmetic for each byte of the tiles", "分块的算术强度"),
                2 * intensity / (read.input_bits / 8), "flop/byte", "computed",
                note=Words(
                    "2 M N / ((M + N) × bytes of an element)", "2 M N / ((M + N) × 元素字节数)"
                ),
            )
        )  # fmt: skip
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
        Words("useful", "有效"), tuple(map(float, sides)),
        tuple(_use(side, m, n, at_once)[2] for side in sides), role="compute",
    )  # fmt: skip
    return Lines(
        Words("Use of the device by the size of a square result", "方阵结果大小与设备利用"),
        Axis(Words("side", "边长")),
        Axis(Words("slots that do useful work", "有效位置占比"), "share"), (used,),
        note=Words(
            "Where it falls, one block too many begins a new wave.",
            "每次下跌都是因为多出的线程块开启了新的波次。",
        ),
    )  # fmt: skip


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
        Words("Square results in waves of this tile", "用该分块计算方阵结果的波次"),
        (
            Column(Words("result", "结果")), Column(Words("blocks", "线程块"), "count"),
            Column(Words("waves", "波次"), "count"),
            Column(Words("of the slots does useful work", "有效位置占比"), "share"),
        ),
        tuple(rows), (best,),
        Words(
            "K not split. What is missing to 100 % are empty places of the last wave and of tiles "
            "at the edge.",
            "假设 K 不切分。未到 100 % 的部分是尾波的空位和边缘分块的空白。",
        ),
    )  # fmt: skip
