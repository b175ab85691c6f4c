"""Lesson: a warp's loads become sectors; neighbours together are cheap."""

from __future__ import annotations

import numpy as np

from gpuscope.explain.numbers import percent
from gpuscope.explain.types import (
    Axis,
    Explanation,
    Explorer,
    HeatMap,
    Lines,
    Output,
    Paragraph,
    Section,
    Series,
    Slider,
    Words,
)
from gpuscope.learn.effects import effects, machine
from gpuscope.learn.lessons.registry import lesson
from gpuscope.lens.requests import ideal_pieces, pieces_per_request

LANES = 32
SECTOR_BYTES = 32
STRIDES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@lesson(
    "coalescing",
    3,
    Words("Coalescing: loads of a warp", "合并访存：一个线程束的加载"),
    Words(
        "Why can reading the same amount of data take five times as long?",
        "为什么读取同样多的数据，时间会差到五倍？",
    ),
)
def coalescing() -> Explanation:
    """Make the lesson."""
    slow = effects("read_stride", stride=32)[0]
    fast = effects("read_stride", stride=1)[0]
    times = slow["time_s"] / fast["time_s"]
    return Explanation(
        topic="lesson",
        title=Words("Coalescing", "合并访存"),
        summary=(
            Words(
                "Memory moves in sectors of 32 bytes. The 32 threads of a warp ask together: if "
                "their addresses lie side by side, 32 floats are 4 sectors; if they lie far apart, "
                "32 sectors, of which 7/8 is thrown away.",
                "显存以 32 字节的扇区为单位传输。一个线程束的 32 个线程一起发出请求：地址相邻时，"
                "32 个 float 只需 4 个扇区；地址分散时则需 32 个扇区，其中 7/8 被丢弃。",
            ),
            Words(
                f"Measured on an {machine().device}: the same number of floats, read with a stride "
                f"of 32, takes {times:.1f} times as long.",
                f"在 {machine().device} 上实测：以步长 32 读取同样多的 float，用时是原来的 "
                f"{times:.1f} 倍。",
            ),
        ),
        sections=(
            Section(Words("What one warp touches", "一个线程束触及什么"), (_map(1), _map(4))),
            Section(Words("What it costs", "代价"), (_curve(), _shift())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=(
            "gpuscope lens examples/lens/numba_copies.py:strided",
            "gpuscope explain transfer 1GB",
        ),
        sources=(
            "NVIDIA, CUDA C++ Best Practices Guide, Coalesced Access to Global Memory",
            f"Measured: benchmarks/warp_effects.py on an {machine().device}",
        ),
    )


def sectors(stride: int, offset: int = 0, size_bytes: int = 4) -> int:
    """Sectors that one warp's load touches, its threads `stride` elements apart."""
    addresses = (np.arange(LANES)[None, :] * stride + offset) * size_bytes
    everyone = np.ones(addresses.shape, dtype=bool)
    return int(pieces_per_request(addresses, everyone, size_bytes, SECTOR_BYTES)[0])


def _least(size_bytes: int) -> int:
    addresses = np.arange(LANES)[None, :] * size_bytes
    everyone = np.ones(addresses.shape, dtype=bool)
    return int(ideal_pieces(addresses, everyone, size_bytes, SECTOR_BYTES)[0])


def _map(stride: int) -> HeatMap:
    """Which bytes of which sectors are used: one row a sector."""
    used = {lane * stride * 4 + byte for lane in range(LANES) for byte in range(4)}
    shown = min(sectors(stride), 8)
    rows = tuple(
        tuple(1.0 if row * SECTOR_BYTES + byte in used else 0.0 for byte in range(SECTOR_BYTES))
        for row in range(shown)
    )
    total = sectors(stride)
    return HeatMap(
        title=Words(
            f"Stride {stride}: {total} sectors for 128 useful bytes",
            f"步长 {stride}：128 个有用字节需要 {total} 个扇区",
        ),
        x=Axis(Words("byte within the sector", "扇区内的字节")),
        y=Axis(Words("sector", "扇区")),
        values=rows,
        classes=(Words("moved for nothing", "白白传输"), Words("used", "被使用")),
        roles=("waste", "good"),
        note=None
        if shown == total
        else Words(f"The first {shown} of {total} sectors.", f"{total} 个扇区中的前 {shown} 个。"),
    )


def _curve() -> Lines:
    rows = effects("read_stride")
    base = rows[0]["time_s"]
    moved = [
        (sectors(row["stride"]) * SECTOR_BYTES + 128) / (sectors(1) * SECTOR_BYTES + 128)
        for row in rows
    ]
    return Lines(
        title=Words("Time of the same reads, by stride", "同样多的读取，用时随步长变化"),
        x=Axis(Words("stride, floats", "步长（float 个数）")),
        y=Axis(Words("time, stride 1 = 1", "用时（步长 1 为 1）"), "ratio"),
        series=(
            Series(
                Words("measured", "实测"),
                tuple(float(row["stride"]) for row in rows),
                tuple(row["time_s"] / base for row in rows),
                "points",
                "bad",
            ),
            Series(
                Words("bytes moved, by counting sectors", "传输字节数（数扇区得出）"),
                tuple(float(row["stride"]) for row in rows),
                tuple(moved),
                "line",
                "memory",
            ),
        ),
        note=Words(
            "The count includes the writes, which stay side by side. Up to a stride of 8 "
            "floats each "
            "step needs more sectors; beyond it each thread has a sector of its own, and what "
            "still "
            "rises is that HBM fetches pairs of sectors and the pages get many.",
            "计数包含相邻的写入。步长到 8 之前，每一步都需要更多扇区；"
            "超过之后每个线程独占一个扇区，"
            "仍在上升的部分来自 HBM 成对取扇区，以及涉及的页面变多。",
        ),
    )


def _shift() -> Paragraph:
    rows = effects("read_offset")
    aligned = next(row["time_s"] for row in rows if row["offset"] == 0)
    worst = max(row["time_s"] for row in rows) / aligned - 1
    return Paragraph(
        Words(
            "A shifted but dense read is nearly free: the fifth sector of one warp is the first of "
            f"the next, and a cache holds it. Measured, the worst shift costs {percent(worst)}.",
            "整体平移但仍连续的读取几乎没有代价：前一个线程束的第五个扇区正是下一个的第一个，"
            f"缓存里还在。实测最差的平移只多用 {percent(worst)}。",
        ),
        "key",
    )


def _explorer() -> Explorer:
    sizes = (1, 2, 4, 8, 16)
    offsets = (0, 1, 2, 4, 8)
    points = [(s, o, b) for s in STRIDES for o in offsets for b in sizes]
    counts = [sectors(s, o, b) for s, o, b in points]
    shares = [LANES * b / (n * SECTOR_BYTES) for (_, _, b), n in zip(points, counts, strict=True)]
    return Explorer(
        title=Words("Sectors of one warp's load", "一个线程束的加载需要几个扇区"),
        sliders=(
            Slider("stride", Words("stride, elements", "步长（元素）"), tuple(map(float, STRIDES))),
            Slider("offset", Words("offset, elements", "偏移（元素）"), tuple(map(float, offsets))),
            Slider(
                "size", Words("bytes of an element", "元素字节数"), tuple(map(float, sizes)), "", 2
            ),
        ),
        outputs=(
            Output(
                "sectors",
                Words("sectors per request", "每次请求的扇区数"),
                "",
                tuple(map(float, counts)),
                role="memory",
            ),
            Output(
                "share",
                Words("useful share of what moves", "传输中有用的比例"),
                "share",
                tuple(shares),
                plotted=False,
            ),
        ),
        x="stride",
        reading=Words(
            "A warp's load takes {sectors} sectors; {share} of what moves is used.",
            "一个线程束的加载需要 {sectors} 个扇区；传输的数据有 {share} 被用到。",
        ),
    )
