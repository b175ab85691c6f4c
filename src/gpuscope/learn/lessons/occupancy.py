"""Lesson: occupancy, what limits it, and why less of it is often enough."""

from __future__ import annotations

from gpuscope.document.blocks import Axis, Explanation, Lines, Role, Section, Series
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.explanation.registry import explain
from gpuscope.hardware import device
from gpuscope.learn.effects import effects
from gpuscope.learn.lessons.parts import measured_source, sections
from gpuscope.learn.lessons.registry import lesson


@lesson("occupancy", 5, Text("Occupancy"), Text("Is a kernel at 25 % occupancy a bad kernel?"))
def occupancy() -> Explanation:
    """Make the lesson."""
    launch = explain("occupancy", threads=256, registers=64, shared="48KB", on="h200")
    threads = device("h200").max_threads_per_unit or 1
    quarter = effects("occupancy", loads_in_flight=4, threads_per_sm=threads // 4)[0]["time_s"]
    full = effects("occupancy", loads_in_flight=4, threads_per_sm=threads)[0]["time_s"]
    return Explanation(
        topic="lesson",
        title=Text("Occupancy"),
        summary=(
            Text(
                "Occupancy is the share of an SM's warp places that are taken. Threads of a block, "
                "registers and shared memory each allow so many blocks; the smallest number counts."
            ),
            Text(
                "It is a means: enough loads must be on their way to hide the latency. Measured: a "
                "copy with four 16-byte loads per thread takes {quarter} µs at 25 % occupancy and "
                "{full} µs at 100 %.",
                quarter=Number(quarter * 1e6, ".0f"),
                full=Number(full * 1e6, ".0f"),
            ),
        ),
        sections=(
            Section(Text("Measured"), (_curve(threads),)),
            *sections(launch, "What fits", "How to fit more", "Over each quantity", "How much"),
        ),
        commands=(
            "gpuscope explain occupancy --threads 256 --registers 64 --shared 48KB --on h200",
            "gpuscope explain occupancy --threads 1024 --registers 40 --on rtx-4090",
        ),
        sources=(*launch.sources, measured_source()),
        assumptions=launch.assumptions,
    )


def _curve(threads: int) -> Lines:
    shapes: tuple[tuple[int, int, Text, Role], ...] = (
        (4, 1, Text("one 4-byte load per thread"), "bad"),
        (16, 1, Text("one 16-byte load"), "memory"),
        (16, 4, Text("four 16-byte loads"), "good"),
    )
    found = []
    for width, flight, label, role in shapes:
        rows = effects("occupancy", bytes_per_load=width, loads_in_flight=flight)
        shares = tuple(row["threads_per_sm"] / threads for row in rows)
        rates = tuple(row["moved_bytes"] / row["time_s"] for row in rows)
        found.append(Series(label, shares, rates, "line", role))
    return Lines(
        title=Text("Bandwidth of a copy by occupancy"),
        x=Axis(Text("occupancy"), "share"),
        y=Axis(Text("bandwidth"), "bytes/s"),
        series=tuple(found),
        note=Text("The more bytes each thread has on their way, the less occupancy is needed."),
    )
