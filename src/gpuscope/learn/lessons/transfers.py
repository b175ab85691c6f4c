"""Lesson: transfers, pinned memory, streams and overlap."""

from __future__ import annotations

from gpuscope.document.blocks import Bar, Bars, Explanation, Part, Role, Section
from gpuscope.document.quantities import Rate, Seconds
from gpuscope.document.text import Text
from gpuscope.explanation.registry import explain
from gpuscope.learn.effects import effect, effects
from gpuscope.learn.lessons.parts import measured_source, sections
from gpuscope.learn.lessons.registry import lesson

NAMES: dict[str, tuple[Text, Role]] = {
    "pageable copy": (Text("copy from pageable memory"), "bad"),
    "pinned copy": (Text("copy from pinned memory"), "copy"),
    "work": (Text("work on the device"), "compute"),
    "one after the other": (Text("pinned copy, then work"), "other"),
    "in 16 chunks, overlapped": (Text("in 16 chunks on two streams"), "good"),
}


@lesson(
    "transfers",
    8,
    Text("Transfers, pinned memory, overlap"),
    Text("How does data get to the GPU, and how can the wait be hidden?"),
)
def transfers() -> Explanation:
    """Make the lesson."""
    ways = {row["way"]: row["time_s"] for row in effects("overlap")}
    pinned = effect("overlap", way="pinned copy")
    copy = explain("transfer", "1GB", on="h200")
    return Explanation(
        topic="lesson",
        title=Text("Transfers"),
        summary=(
            Text(
                "The host bus is far narrower than device memory. From pinned pages the GPU "
                "fetches by itself; pageable ones the driver copies to a pinned buffer first."
            ),
            Text(
                "Measured, 1 GiB: {pageable} from pageable memory, {pinned} from pinned ({rate}).",
                pageable=Seconds(ways["pageable copy"]),
                pinned=Seconds(ways["pinned copy"]),
                rate=Rate(pinned["bytes"] / pinned["time_s"], "B/s"),
            ),
            Text(
                "Cut into chunks on two streams, copying and computing run side by side: "
                "{overlapped} instead of {apart}.",
                overlapped=Seconds(ways["in 16 chunks, overlapped"]),
                apart=Seconds(ways["one after the other"]),
            ),
        ),
        sections=(
            Section(Text("Measured"), (_bars(),)),
            *sections(copy, "The way of the bytes", "Under arithmetic", "When copying", "Move it"),
        ),
        commands=(
            "gpuscope explain transfer 1GB --on h200",
            "gpuscope explain transfer 64KB --on rtx-4090",
        ),
        sources=(*copy.sources, measured_source()),
        assumptions=copy.assumptions,
    )


def _bars() -> Bars:
    return Bars(
        title=Text("One GiB to the device and work on it"),
        unit="s",
        bars=tuple(
            Bar(label, (Part(label, row["time_s"], role),))
            for row in effects("overlap")
            for label, role in (NAMES[row["way"]],)
        ),
    )
