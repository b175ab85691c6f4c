"""Lesson: grid, block, warp; and what happens when the threads of a warp part ways."""

from __future__ import annotations

from gpuscope.document.blocks import (
    Axis,
    Diagram,
    Explanation,
    Explorer,
    Fact,
    Facts,
    HeatMap,
    Lines,
    Node,
    Output,
    Section,
    Series,
    Slider,
)
from gpuscope.document.blocks import Link as Arrow
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.hardware import device
from gpuscope.learn.effects import effects
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson

LANES = 32


@lesson(
    "warps",
    2,
    Text("Grid, block, warp"),
    Text("What runs when a kernel is launched, and what does an `if` cost?"),
)
def warps() -> Explanation:
    """Make the lesson."""
    rows = effects("divergence")
    worst = rows[-1]["time_s"] / rows[0]["time_s"]
    return Explanation(
        topic="lesson",
        title=Text("Grid, block, warp"),
        summary=(
            Text(
                "A kernel is a grid of blocks. A block runs on one SM and shares its memory; it is "
                "cut into warps of 32 threads, and a warp is what the hardware issues: one "
                "instruction for all its threads at once."
            ),
            Text(
                "If threads of one warp take different ways, the ways run one after the other. "
                "Measured: 32 different ways take {worst} times as long. Ways that differ only "
                "between warps cost nothing.",
                worst=Number(worst, ".1f"),
            ),
        ),
        sections=(
            Section(Text("Who is who"), (_levels(), _limits())),
            Section(Text("Divergence"), (_lanes(), _curve())),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope lens examples/lens/numba_copies.py:strided",
            "gpuscope explain occupancy --threads 256 --registers 64 --on h200",
        ),
        sources=(
            "NVIDIA, CUDA C++ Programming Guide, Thread Hierarchy; SIMT Architecture",
            measured_source(),
        ),
    )


def _levels() -> Diagram:
    units = device("h200").compute_units or 0
    return Diagram(
        title=Text("From a launch to the lanes"),
        nodes=tuple(
            Node(key, label, kind, x, 0.5, cells=cells)
            for key, label, kind, x, cells in (
                ("grid", Text("grid: one launch"), "block", 0.12, 0),
                ("block", Text("block: ≤ 1,024 threads"), "block", 0.38, 0),
                ("sm", Text("one of {units} SMs", units=units), "compute", 0.64, 4),
                ("warp", Text("warp: 32 threads"), "block", 0.89, LANES),
            )
        ),
        links=(
            Arrow("grid", "block", Text("is cut into")),
            Arrow("block", "sm", Text("lands on")),
            Arrow("sm", "warp", Text("issues")),
        ),
    )


def _limits() -> Facts:
    h200 = device("h200")
    units, threads = h200.compute_units or 0, h200.max_threads_per_unit or 0
    rows = (
        (Text("SMs of an H200"), units),
        (Text("threads that are resident on one SM"), threads),
        (Text("threads resident at once"), units * threads),
        (Text("warps resident on one SM"), h200.max_warps_per_unit),
        (Text("threads of a block, at most"), h200.max_threads_per_block),
    )
    return Facts(tuple(Fact(label, value, "count", "datasheet") for label, value in rows))


def _lanes() -> HeatMap:
    ways = 4
    return HeatMap(
        title=Text("A warp whose lanes take {ways} ways: who works in which pass", ways=ways),
        x=Axis(Text("lane")),
        y=Axis(Text("pass")),
        values=tuple(
            tuple(0.0 if lane % ways == turn else 1.0 for lane in range(LANES))
            for turn in range(ways)
        ),
        classes=(Text("works"), Text("waits")),
        roles=("good", "idle"),
    )


def _curve() -> Lines:
    found = effects("divergence")
    one = found[0]["time_s"]
    ways = tuple(float(row["branches"]) for row in found)
    return Lines(
        title=Text("Time by number of ways within a warp"),
        x=Axis(Text("ways"), log=True),
        y=Axis(Text("time, one way = 1"), "ratio", log=True),
        series=(
            Series(
                Text("measured"), ways, tuple(row["time_s"] / one for row in found), "points", "bad"
            ),
            Series(Text("one after the other"), ways, ways, "line", "compute"),
        ),
    )


def _explorer() -> Explorer:
    shares = tuple(k / 100 for k in range(0, 101, 5))
    costs = (1.0, 2.0, 4.0, 8.0, 16.0)
    both = [1 - (1 - p) ** LANES - p**LANES for p in shares for _ in costs]
    slow = [1 - (1 - p) ** LANES for p in shares for _ in costs]
    fast = [1 - p**LANES for p in shares for _ in costs]
    cost = [c for _ in shares for c in costs]
    time = [s * c + f for s, f, c in zip(slow, fast, cost, strict=True)]
    ideal = [p * c + (1 - p) for p in shares for c in costs]
    return Explorer(
        title=Text("An `if` that each thread takes at random"),
        sliders=(
            Slider("share", Text("threads that take it"), shares, "share", 2),
            Slider("cost", Text("its work, the other = 1"), costs, "", 2),
        ),
        outputs=(
            Output("time", Text("time of a warp"), "", tuple(time), role="bad"),
            Output("ideal", Text("if threads could run alone"), "", tuple(ideal), role="good"),
            Output(
                "both", Text("warps that pay for both ways"), "share", tuple(both), plotted=False
            ),
        ),
        x="share",
        reading=Text("{both} of the warps pay for both ways: {time} instead of {ideal}."),
        note=Text("A warp of 32 pays for a way as soon as one thread takes it: 1 − (1 − p)^32."),
    )
