"""Lesson: a warp's loads become sectors; neighbours together are cheap."""

from __future__ import annotations

import numpy as np

from gpuscope.document.blocks import (
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
)
from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text
from gpuscope.kernel_lens.requests import ideal_pieces, pieces_per_request
from gpuscope.learn.effects import effects, machine
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson

LANES = 32
SECTOR_BYTES = 32
STRIDES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@lesson(
    "coalescing",
    3,
    Text("Coalescing: loads of a warp"),
    Text("Why can reading the same amount of data take five times as long?"),
)
def coalescing() -> Explanation:
    """Make the lesson."""
    slow = effects("read_stride", stride=32)[0]
    fast = effects("read_stride", stride=1)[0]
    times = slow["time_s"] / fast["time_s"]
    return Explanation(
        topic="lesson",
        title=Text("Coalescing"),
        summary=(
            Text(
                "Memory moves in sectors of 32 bytes. The 32 threads of a warp ask together: if "
                "their addresses lie side by side, 32 floats are 4 sectors; if they lie far apart, "
                "32 sectors, of which 7/8 is thrown away."
            ),
            Text(
                "Measured on an {device}: the same number of floats, read with a stride of 32, "
                "takes {times} times as long.",
                device=machine().device,
                times=Number(times, ".1f"),
            ),
        ),
        sections=(
            Section(Text("What one warp touches"), (_map(1), _map(4))),
            Section(Text("What it costs"), (_curve(), _shift())),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope lens examples/lens/numba_copies.py:strided",
            "gpuscope explain transfer 1GB",
        ),
        sources=(
            "NVIDIA, CUDA C++ Best Practices Guide, Coalesced Access to Global Memory",
            measured_source(),
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
        title=Text(
            "Stride {stride}: {total} sectors for 128 useful bytes", stride=stride, total=total
        ),
        x=Axis(Text("byte within the sector")),
        y=Axis(Text("sector")),
        values=rows,
        classes=(Text("moved for nothing"), Text("used")),
        roles=("waste", "good"),
        note=None
        if shown == total
        else Text("The first {shown} of {total} sectors.", shown=shown, total=total),
    )


def _curve() -> Lines:
    rows = effects("read_stride")
    base = rows[0]["time_s"]
    moved = [
        (sectors(row["stride"]) * SECTOR_BYTES + 128) / (sectors(1) * SECTOR_BYTES + 128)
        for row in rows
    ]
    return Lines(
        title=Text("Time of the same reads, by stride"),
        x=Axis(Text("stride, floats")),
        y=Axis(Text("time, stride 1 = 1"), "ratio"),
        series=(
            Series(
                Text("measured"),
                tuple(float(row["stride"]) for row in rows),
                tuple(row["time_s"] / base for row in rows),
                "points",
                "bad",
            ),
            Series(
                Text("bytes moved, by counting sectors"),
                tuple(float(row["stride"]) for row in rows),
                tuple(moved),
                "line",
                "memory",
            ),
        ),
        note=Text(
            "The count includes the writes, which stay side by side. Up to a stride of 8 floats "
            "each step needs more sectors; beyond it each thread has a sector of its own, and what "
            "still rises is that HBM fetches pairs of sectors and the pages get many."
        ),
    )


def _shift() -> Paragraph:
    rows = effects("read_offset")
    aligned = next(row["time_s"] for row in rows if row["offset"] == 0)
    worst = max(row["time_s"] for row in rows) / aligned - 1
    return Paragraph(
        Text(
            "A shifted but dense read is nearly free: the fifth sector of one warp is the first of "
            "the next, and a cache holds it. Measured, the worst shift costs {worst}.",
            worst=Percent(worst),
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
        title=Text("Sectors of one warp's load"),
        sliders=(
            Slider("stride", Text("stride, elements"), tuple(map(float, STRIDES))),
            Slider("offset", Text("offset, elements"), tuple(map(float, offsets))),
            Slider("size", Text("bytes of an element"), tuple(map(float, sizes)), "", 2),
        ),
        outputs=(
            Output(
                "sectors", Text("sectors per request"), "", tuple(map(float, counts)), role="memory"
            ),
            Output(
                "share", Text("useful share of what moves"), "share", tuple(shares), plotted=False
            ),
        ),
        x="stride",
        reading=Text("A warp's load takes {sectors} sectors; {share} of what moves is used."),
    )
