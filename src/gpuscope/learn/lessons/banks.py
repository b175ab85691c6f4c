"""Lesson: shared memory has 32 banks; two words of one bank wait for each other."""

from __future__ import annotations

import numpy as np

from gpuscope.document.blocks import (
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
)
from gpuscope.document.quantities import Number, Rate
from gpuscope.document.text import Text, plural, verbatim
from gpuscope.hardware import device
from gpuscope.kernel_lens.requests import bank_passes
from gpuscope.learn.effects import effects
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson

LANES = BANKS = 32
WORD_BYTES = 4


@lesson(
    "shared-memory",
    4,
    Text("Shared memory and its banks"),
    Text("Why does one unused column make a transpose twice as fast?"),
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
        title=Text("Shared memory"),
        summary=(
            Text(
                "Each SM has a small memory of its own ({per_sm} KiB on an H200) that the threads "
                "of a block share. It has 32 banks, each 4 bytes wide: 32 threads get their words "
                "at once if they ask 32 different banks, or the same word.",
                per_sm=per_sm,
            ),
            Text(
                "Different words of one bank are served one after the other. Measured: a load "
                "takes {free} cycles, with a 32-way conflict {conflict}: two cycles more for "
                "each further way.",
                free=Number(cycles[1], ".0f"),
                conflict=Number(cycles[32], ".0f"),
            ),
            Text(
                "A transpose through shared memory gets {gain} times as fast by one column of "
                "padding: then a column of the tile lies in 32 different banks.",
                gain=Number(gain, ".1f"),
            ),
        ),
        sections=(
            Section(Text("Who asks which bank"), (_map(1), _map(2), _map(33))),
            Section(Text("What a conflict costs"), (_curve(), _transposes())),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=("gpuscope lens examples/lens/numba_transpose.py:padded",),
        sources=(
            "NVIDIA, CUDA C++ Programming Guide, Shared Memory (compute capability 5.x and later)",
            measured_source(),
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
        title=plural(
            "Stride {stride}: {count} pass",
            "Stride {stride}: {count} passes",
            ways(stride),
            stride=stride,
        ),
        x=Axis(Text("bank")),
        y=Axis(Text("threads that ask it")),
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
        title=Text("Cycles of one load from shared memory"),
        x=Axis(Text("ways of the conflict")),
        y=Axis(Text("cycles")),
        series=(
            Series(
                Text("measured"),
                counts,
                tuple(row["cycles_per_load"] for row in rows),
                "points",
                "bad",
            ),
            Series(
                Text("one pass after the other"),
                (1.0, 32.0),
                (base, base + 31 * step),
                "line",
                "shared",
            ),
        ),
    )


def _transposes() -> Bars:
    roles: dict[str, Role] = {"naive": "bad", "shared": "tail", "padded": "good"}
    names = {
        "naive": Text("naive: writes 32 KiB apart"),
        "shared": Text("through shared memory"),
        "padded": Text("... with a column of padding"),
        "plain copy": Text("plain copy, no transpose"),
    }
    rows = effects("transpose")
    return Bars(
        title=Text("Transposing 8192 x 8192 floats"),
        unit="s",
        bars=tuple(
            Bar(
                names[row["kernel"]],
                (Part(names[row["kernel"]], row["time_s"], roles.get(row["kernel"], "reference")),),
                verbatim(Rate(row["moved_bytes"] / row["time_s"], "B/s")),
            )
            for row in rows
        ),
    )


def _explorer() -> Explorer:
    strides = tuple(range(1, 66))
    sizes = (4, 8, 16)
    found = [float(ways(s, b)) for s in strides for b in sizes]
    return Explorer(
        title=Text("Passes over the banks"),
        sliders=(
            Slider("stride", Text("stride, elements"), tuple(map(float, strides)), "", 31),
            Slider("size", Text("bytes of an element"), tuple(map(float, sizes))),
        ),
        outputs=(Output("ways", Text("passes"), "", tuple(found), role="shared"),),
        x="stride",
        reading=Text(
            "With a stride of {stride} elements of {size} bytes a warp's load takes {ways} passes."
        ),
        note=Text("Odd strides of 4-byte words never conflict."),
    )
