"""Lesson: shared memory has 32 banks; two words of one bank wait for each other."""

from __future__ import annotations

import numpy as np

from gpuscope.explain.numbers import rate
from gpuscope.explain.types import (
    Axis,
    Bar,
    Bars,
    Explanation,
    Explorer,
    HeatMap,
    Lines,
    Output,
    Part,
    Role,
    Section,
    Series,
    Slider,
    Words,
)
from gpuscope.hardware import device
from gpuscope.learn.effects import effects, machine
from gpuscope.learn.lessons.registry import lesson
from gpuscope.lens.requests import bank_passes

LANES = BANKS = 32
WORD_BYTES = 4


@lesson(
    "shared-memory",
    4,
    Words("Shared memory and its banks", "共享内存与存储体"),
    Words(
        "Why does one unused column make a transpose twice as fast?",
        "为什么多加一列空位，转置就能快一倍？",
    ),
)
def shared_memory() -> Explanation:
    """Make the lesson."""
    cycles = {row["stride"]: row["cycles_per_load"] for row in effects("bank_conflict")}
    kinds = {row["kernel"]: row for row in effects("transpose")}
    gain = kinds["shared"]["time_s"] / kinds["padded"]["time_s"]
    h200 = device("h200")
    per_sm = (h200.shared_memory_per_unit_bytes or 0) // 1024
    return Explanation(
        topic="lesson",
        title=Words("Shared memory", "共享内存"),
        summary=(
            Words(
                f"Each SM has a small memory of its own ({per_sm} KiB on an H200) that the threads "
                "of a block share. It has 32 banks, each 4 bytes wide: 32 threads get their "
                "words at "
                "once if they ask 32 different banks, or the same word.",
                f"每个 SM 都有一小块自己的内存（H200 上为 {per_sm} KiB），由线程块内的线程共享。"
                "它有 32 个存储体，每个 4 字节宽：32 个线程访问 32 个不同的存储体或同一个字时，"
                "可一次完成。",
            ),
            Words(
                "Different words of one bank are served one after the other. Measured: a load "
                "takes "
                f"{cycles[1]:.0f} cycles, with a 32-way conflict {cycles[32]:.0f}: two cycles "
                "more for "
                "each further way.",
                f"同一存储体的不同字只能依次服务。实测：一次加载需 {cycles[1]:.0f} 个周期，"
                f"32 路冲突时需 {cycles[32]:.0f} 个：每多一路多两个周期。",
            ),
            Words(
                f"A transpose through shared memory gets {gain:.1f} times as fast by one column of "
                "padding: then a column of the tile lies in 32 different banks.",
                f"借助共享内存的转置，多填充一列后快了 {gain:.1f} 倍：此时分块的一列落在 32 "
                "个不同的存储体中。",
            ),
        ),
        sections=(
            Section(Words("Who asks which bank", "谁访问哪个存储体"), (_map(1), _map(2), _map(33))),
            Section(Words("What a conflict costs", "冲突的代价"), (_curve(), _transposes())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=("gpuscope lens examples/lens/numba_transpose.py:padded",),
        sources=(
            "NVIDIA, CUDA C++ Programming Guide, Shared Memory (compute capability 5.x and later)",
            f"Measured: benchmarks/warp_effects.py on an {machine().device}",
        ),
    )


def ways(stride: int, size_bytes: int = WORD_BYTES) -> int:
    """Passes over the banks that a warp's load needs, its threads `stride` elements apart."""
    addresses = np.arange(LANES)[None, :] * stride * size_bytes
    everyone = np.ones(addresses.shape, dtype=bool)
    return int(bank_passes(addresses, everyone, size_bytes, BANKS, WORD_BYTES)[0][0])


def _map(stride: int) -> HeatMap:
    """Lanes of a warp over the banks they ask."""
    hits = np.zeros((1, BANKS))
    for lane in range(LANES):
        hits[0, lane * stride % BANKS] += 1
    return HeatMap(
        title=Words(
            f"Stride {stride}: {ways(stride)} pass" + ("es" if ways(stride) > 1 else ""),
            f"步长 {stride}：{ways(stride)} 趟",
        ),
        x=Axis(Words("bank", "存储体")),
        y=Axis(Words("threads that ask it", "访问它的线程数")),
        values=tuple(tuple(map(float, row)) for row in hits),
        y_labels=("",),
        unit="",
    )


def _curve() -> Lines:
    rows = sorted(effects("bank_conflict"), key=lambda row: ways(row["stride"]))
    base = next(row["cycles_per_load"] for row in rows if row["stride"] == 1)
    slope = next(row["cycles_per_load"] for row in rows if row["stride"] == 32)
    step = (slope - base) / 31
    counts = tuple(float(ways(row["stride"])) if row["stride"] else 1.0 for row in rows)
    return Lines(
        title=Words("Cycles of one load from shared memory", "一次共享内存加载的周期数"),
        x=Axis(Words("ways of the conflict", "冲突路数")),
        y=Axis(Words("cycles", "周期")),
        series=(
            Series(
                Words("measured", "实测"), counts,
                tuple(row["cycles_per_load"] for row in rows), "points", "bad",
            ),
            Series(
                Words("one pass after the other", "一趟接一趟"), (1.0, 32.0),
                (base, base + 31 * step), "line", "shared",
            ),
        ),
    )  # fmt: skip


def _transposes() -> Bars:
    roles: dict[str, Role] = {"naive": "bad", "shared": "tail", "padded": "good"}
    names = {
        "naive": Words("naive: writes 32 KiB apart", "朴素：写入相隔 32 KiB"),
        "shared": Words("through shared memory", "借助共享内存"),
        "padded": Words("... with a column of padding", "……并填充一列"),
        "plain copy": Words("plain copy, no transpose", "普通拷贝，不转置"),
    }
    rows = effects("transpose")
    return Bars(
        title=Words("Transposing 8192 x 8192 floats", "转置 8192 x 8192 个 float"),
        unit="s",
        bars=tuple(
            Bar(
                names[row["kernel"]],
                (Part(names[row["kernel"]], row["time_s"], roles.get(row["kernel"], "reference")),),
                Words(
                    rate(row["moved_bytes"] / row["time_s"], "B/s"),
                    rate(row["moved_bytes"] / row["time_s"], "B/s"),
                ),
            )
            for row in rows
        ),
    )


def _explorer() -> Explorer:
    strides = tuple(range(1, 66))
    sizes = (4, 8, 16)
    found = [float(ways(s, b)) for s in strides for b in sizes]
    return Explorer(
        title=Words("Passes over the banks", "存储体需要几趟"),
        sliders=(
            Slider(
                "stride",
                Words("stride, elements", "步长（元素）"),
                tuple(map(float, strides)),
                "",
                31,
            ),
            Slider("size", Words("bytes of an element", "元素字节数"), tuple(map(float, sizes))),
        ),
        outputs=(Output("ways", Words("passes", "趟数"), "", tuple(found), role="shared"),),
        x="stride",
        reading=Words(
            "With a stride of {stride} elements of {size} bytes a warp's load takes {ways} passes.",
            "步长为 {stride} 个 {size} 字节的元素时，一个线程束的加载需要 {ways} 趟。",
        ),
        note=Words("Odd strides of 4-byte words never conflict.", "4 字节字的奇数步长永不冲突。"),
    )
