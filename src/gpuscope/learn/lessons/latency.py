"""Lesson: CPU and GPU; one hides latency by caches and guesses, the other by many threads."""

from __future__ import annotations

from gpuscope.document.blocks import (
    Axis,
    Bar,
    Bars,
    Explanation,
    Explorer,
    Fact,
    Facts,
    Lines,
    Output,
    Part,
    Role,
    Section,
    Series,
    Slider,
)
from gpuscope.document.quantities import Number, Rate, Seconds
from gpuscope.document.text import Text
from gpuscope.hardware import device
from gpuscope.learn.effects import effect, effects
from gpuscope.learn.lessons.parts import measured_source
from gpuscope.learn.lessons.registry import lesson

SIZE_BYTES = 2**22
"""Larger than an L1, smaller than the L2: a warm walk over it shows the L2's latency, a cold one
that of device memory."""

L1_SIZE_BYTES = 2**17


@lesson(
    "cpu-and-gpu", 1, Text("CPU and GPU"), Text("Why does a GPU need a hundred thousand threads?")
)
def cpu_and_gpu() -> Explanation:
    """Make the lesson."""
    wait_s = effect("latency", bytes=SIZE_BYTES)["cold_load_s"]
    one = wait_s and 4 / wait_s
    h200 = device("h200")
    needed = h200.memory_bandwidth_bytes_per_s * wait_s
    return Explanation(
        topic="lesson",
        title=Text("CPU and GPU"),
        summary=(
            Text(
                "One load from an H200's memory takes {wait}. A thread that waits for each of its "
                "loads gets {one}; the memory could give {memory_bandwidth}.",
                wait=Seconds(wait_s),
                one=Rate(one, "B/s"),
                memory_bandwidth=Rate(h200.memory_bandwidth_bytes_per_s, "B/s"),
            ),
            Text(
                "To keep the memory busy, {needed} MB must be on their way at any moment (Little's "
                "law: latency times bandwidth). A CPU shortens the wait with large caches and "
                "prediction; a GPU lets others work meanwhile: that is what its threads are for.",
                needed=Number(needed / 1e6),
            ),
        ),
        sections=(
            Section(Text("How long a load takes"), (_latencies(),)),
            Section(Text("How many must be on their way"), (_curve(), _facts())),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope devices h200",
            "gpuscope explain occupancy --threads 256 --registers 32 --on h200",
        ),
        sources=(
            "J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9 (1961)",
            "V. Volkov, Better Performance at Lower Occupancy, GTC 2010",
            measured_source(),
        ),
    )


def _latencies() -> Bars:
    far = effect("latency", bytes=SIZE_BYTES)
    near = effect("latency", bytes=L1_SIZE_BYTES)
    own = effect("latency", memory="shared")
    rows: tuple[tuple[Text, float, Role], ...] = (
        (Text("shared memory"), own["load_s"], "shared"),
        (Text("L1 cache"), near["load_s"], "l2"),
        (Text("L2 cache"), far["load_s"], "l2"),
        (Text("device memory"), far["cold_load_s"], "memory"),
    )
    return Bars(
        title=Text("One load that nothing hides, measured"),
        unit="s",
        bars=tuple(Bar(label, (Part(label, value, role),)) for label, value, role in rows),
        note=Text(
            "By a single thread that follows pointers; the launch is part of the shortest ones."
        ),
    )


def _curve() -> Lines:
    shapes: tuple[tuple[int, int, Text, Role], ...] = (
        (4, 1, Text("4 bytes a load"), "bad"),
        (16, 1, Text("16 bytes a load"), "memory"),
        (16, 4, Text("4 loads of 16 bytes at once"), "good"),
    )
    series = []
    for width, flight, label, role in shapes:
        rows = effects("occupancy", bytes_per_load=width, loads_in_flight=flight)
        series.append(
            Series(
                label,
                tuple(float(row["threads_per_sm"]) for row in rows),
                tuple(row["moved_bytes"] / row["time_s"] for row in rows),
                "line",
                role,
            )
        )
    return Lines(
        title=Text("A copy's bandwidth by threads on each SM, measured"),
        x=Axis(Text("threads on each SM"), log=True),
        y=Axis(Text("bandwidth"), "bytes/s"),
        series=tuple(series),
        note=Text(
            "Bytes on their way count, not threads: with more of them in flight per thread a "
            "quarter of the threads suffices."
        ),
    )


def _facts() -> Facts:
    h200 = device("h200")
    wait_s = effect("latency", bytes=SIZE_BYTES)["cold_load_s"]
    needed = h200.memory_bandwidth_bytes_per_s * wait_s
    units = h200.compute_units or 1
    return Facts(
        (
            Fact(Text("latency of device memory"), wait_s, "s", "measured"),
            Fact(Text("bandwidth"), h200.memory_bandwidth_bytes_per_s, "bytes/s", "datasheet"),
            Fact(Text("bytes on their way"), needed, "bytes", "computed"),
            Fact(Text("of each SM"), needed / units, "bytes", "computed"),
            Fact(Text("threads with one 4-byte load each"), needed / 4, "count", "computed"),
        )
    )


def _explorer() -> Explorer:
    threads = tuple(float(32 * 2**k) for k in range(7))
    widths, flights = (4.0, 8.0, 16.0), (1.0, 2.0, 4.0, 8.0)
    h200 = device("h200")
    wait_s = effect("latency", bytes=SIZE_BYTES)["cold_load_s"]
    units, peak = h200.compute_units or 1, h200.memory_bandwidth_bytes_per_s
    reached, share = [], []
    for n in threads:
        for width in widths:
            for flight in flights:
                found = min(peak, n * units * width * flight / wait_s)
                reached.append(found)
                share.append(found / peak)
    return Explorer(
        title=Text("Bandwidth that so many loads can ask for"),
        sliders=(
            Slider("threads", Text("threads on each SM"), threads, "", 3),
            Slider("width", Text("bytes of a load"), widths),
            Slider("flight", Text("loads in flight per thread"), flights),
        ),
        outputs=(
            Output("rate", Text("bandwidth, at most"), "bytes/s", tuple(reached), role="memory"),
            Output("share", Text("share of the peak"), "share", tuple(share), plotted=False),
        ),
        x="threads",
        log_x=True,
        reading=Text("At most {rate}, {share} of what the memory could give."),
        note=Text(
            "Reads only, latency as of an idle memory: under load it grows, and the measured curve "
            "stays below."
        ),
    )
