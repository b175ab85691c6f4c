"""Lesson: blocks run in waves; the last one is seldom full."""

from __future__ import annotations

import math

from gpuscope.document.blocks import (
    Axis,
    Explanation,
    Explorer,
    HeatMap,
    Lines,
    Output,
    Section,
    Series,
    Slider,
)
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.registry import explain
from gpuscope.hardware import device
from gpuscope.learn.effects import effect, effects, machine
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "waves",
    9,
    Text("Waves and tiles"),
    Text("Why can one more row of a matrix cost as much as thousands?"),
)
def waves() -> Explanation:
    """Make the lesson."""
    slots = effects("waves")[0]["slots"]
    full = effect("waves", kernel="hold", blocks=slots)["time_s"]
    over = effect("waves", kernel="hold", blocks=slots + 1)["time_s"]
    product = explain("matmul", 4096, 4096, 4096, dtype="bf16", on="h200")
    return Explanation(
        topic="lesson",
        title=Text("Waves and tiles"),
        summary=(
            Text(
                "A kernel is a grid of blocks; so many fit on the SMs at once (a wave), the rest "
                "waits. Blocks of equal work finish together, so the time goes up in steps, one a "
                "wave."
            ),
            Text(
                "Measured on an {device}: {slots} blocks of 1,024 threads take {full} µs, "
                "{more} take {over} µs.",
                device=machine().device,
                slots=slots,
                full=Number(full * 1e6, ".0f"),
                more=slots + 1,
                over=Number(over * 1e6, ".0f"),
            ),
            Text(
                "A matrix product is cut into tiles, one block each: its sizes decide how full the "
                "last wave is."
            ),
        ),
        sections=(
            Section(Text("Steps"), (_steps(), _landing())),
            Section(Text("Try it"), (_explorer(),)),
            # The product's own page shows its tiles and the cliffs over N.
            *product.sections[1:2],
            *product.sections[3:4],
        ),
        commands=(
            "gpuscope explain matmul 4096 4096 4096 --dtype bf16 --on h200",
            "gpuscope explain matmul 4096 4224 4096 --dtype bf16 --on h200",
        ),
        sources=(
            "NVIDIA, Matrix Multiplication Background User's Guide (wave and tile quantization)",
            measured_source(),
            *product.sources,
        ),
    )


def _steps() -> Lines:
    held = effects("waves", kernel="hold")
    slots = held[0]["slots"]
    one = effect("waves", kernel="hold", blocks=slots)["time_s"]
    blocks = tuple(float(row["blocks"]) for row in held)
    return Lines(
        title=Text("Time by number of blocks"),
        x=Axis(Text("blocks")),
        y=Axis(Text("time"), "s"),
        series=(
            Series(Text("measured"), blocks, tuple(row["time_s"] for row in held), "points", "bad"),
            Series(
                Text("whole waves"),
                blocks,
                tuple(math.ceil(b / slots) * one for b in blocks),
                "steps",
                "compute",
            ),
        ),
        note=Text(
            "Each block holds its place for a fixed time. Blocks that share an SM's arithmetic get "
            "faster when fewer run, so real steps are softer."
        ),
    )


def _landing() -> HeatMap:
    units = device("h200").compute_units or 1
    blocks = units + units // 4
    rows = []
    for wave in range(2):
        left = blocks - wave * units
        rows.append(tuple(0.0 if sm < left else 1.0 for sm in range(units)))
    return HeatMap(
        title=Text(
            "{blocks} equal blocks on {units} SMs, one at a time on each",
            blocks=blocks,
            units=units,
        ),
        x=Axis(verbatim("SM")),
        y=Axis(Text("wave")),
        values=tuple(rows),
        y_labels=("1", "2"),
        classes=(Text("busy"), Text("idle")),
        roles=("compute", "idle"),
    )


def _explorer() -> Explorer:
    names = ("h200", "a100", "l4", "rtx-4090", "b200")
    sizes = tuple(float(64 * k) for k in range(1, 129))
    tiles = (64, 128, 256)
    units = [device(name).compute_units or 1 for name in names]
    found_waves, used = [], []
    for unit in units:
        for tile in tiles:
            for size in sizes:
                blocks = math.ceil(size / tile) ** 2
                count = math.ceil(blocks / unit)
                found_waves.append(float(count))
                used.append(min(1.0, size * size / (count * unit * tile * tile)))
    return Explorer(
        title=Text("How full a square result's waves are"),
        sliders=(
            Slider("device", Text("device"), names),
            Slider("tile", Text("tile side"), tuple(map(float, tiles)), "", 1),
            Slider("size", Text("side of the matrix"), sizes, "", 63),
        ),
        outputs=(
            Output(
                "used",
                Text("share of the SMs' time that is useful"),
                "share",
                tuple(used),
                role="compute",
            ),
            Output("waves", Text("waves"), "", tuple(found_waves), plotted=False),
        ),
        x="size",
        reading=Text(
            "On {device} a {size} x {size} result in {tile} x {tile} tiles takes {waves} waves; "
            "{used} of the SMs' time is useful."
        ),
        note=Text("One block on each SM at a time."),
    )
