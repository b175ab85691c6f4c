"""Lesson: CPU and GPU; one hides latency by caches and guesses, the other by many threads."""

from __future__ import annotations

from gpuscope.explain.numbers import rate, seconds, three
from gpuscope.explain.types import (
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
    Words,
)
from gpuscope.hardware import device
from gpuscope.learn.effects import effect, effects, machine
from gpuscope.learn.lessons.registry import lesson

SIZE_BYTES = 2**22
"""Larger than an L1, smaller than the L2: a warm walk over it shows the L2's latency, a cold one
that of device memory."""

L1_SIZE_BYTES = 2**17


@lesson(
    "cpu-and-gpu",
    1,
    Words("CPU and GPU", "CPU 与 GPU"),
    Words(
        "Why does a GPU need a hundred thousand threads?",
        "为什么 GPU 需要十万个线程？",
    ),
)
def cpu_and_gpu() -> Explanation:
    """Make the lesson."""
    wait_s = effect("latency", bytes=SIZE_BYTES)["cold_load_s"]
    one = wait_s and 4 / wait_s
    h200 = device("h200")
    needed = h200.memory_bandwidth_bytes_per_s * wait_s
    return Explanation(
        topic="lesson",
        title=Words("CPU and GPU", "CPU 与 GPU"),
        summary=(
            Words(
                f"One load from an H200's memory takes {seconds(wait_s)}. A thread that waits for "
                f"each of its loads gets {rate(one, 'B/s')}; the memory could give "
                f"{rate(h200.memory_bandwidth_bytes_per_s, 'B/s')}.",
                f"从 H200 的显存加载一次需要 {seconds(wait_s)}。逐次等待的一个线程只能得到 "
                f"{rate(one, 'B/s')}；而显存可以提供 "
                f"{rate(h200.memory_bandwidth_bytes_per_s, 'B/s')}。",
            ),
            Words(
                f"To keep the memory busy, {three(needed / 1e6)} MB must be on their way at any "
                "moment "
                "(Little's law: latency times bandwidth). A CPU shortens the wait with large "
                "caches "
                "and prediction; a GPU lets others work meanwhile: that is what its threads "
                "are for.",
                f"要让显存满负荷，任何时刻都要有 {three(needed / 1e6)} MB 数据在途（利特尔法则："
                "延迟乘以带宽）。"
                "CPU 用大缓存和预测缩短等待；GPU 则让别的线程在此期间工作："
                "这就是它需要大量线程的原因。",
            ),
        ),
        sections=(
            Section(Words("How long a load takes", "一次加载要多久"), (_latencies(),)),
            Section(Words("How many must be on their way", "需要多少在途"), (_curve(), _facts())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=(
            "gpuscope devices h200",
            "gpuscope explain occupancy --threads 256 --registers 32 --on h200",
        ),
        sources=(
            "J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9 (1961)",
            "V. Volkov, Better Performance at Lower Occupancy, GTC 2010",
            f"Measured: benchmarks/warp_effects.py on an {machine().device}",
        ),
    )


def _latencies() -> Bars:
    far = effect("latency", bytes=SIZE_BYTES)
    near = effect("latency", bytes=L1_SIZE_BYTES)
    own = effect("latency", memory="shared")
    rows: tuple[tuple[Words, float, Role], ...] = (
        (Words("shared memory", "共享内存"), own["load_s"], "shared"),
        (Words("L1 cache", "L1 缓存"), near["load_s"], "l2"),
        (Words("L2 cache", "L2 缓存"), far["load_s"], "l2"),
        (Words("device memory", "显存"), far["cold_load_s"], "memory"),
    )
    return Bars(
        title=Words("One load that nothing hides, measured", "无从隐藏的一次加载，实测"),
        unit="s",
        bars=tuple(Bar(label, (Part(label, value, role),)) for label, value, role in rows),
        note=Words(
            "By a single thread that follows pointers; the launch is part of the shortest ones.",
            "由单个线程沿指针逐次访问测得；最短的几项里含有启动时间。",
        ),
    )


def _curve() -> Lines:
    shapes: tuple[tuple[int, int, Words, Role], ...] = (
        (4, 1, Words("4 bytes a load", "每次 4 字节"), "bad"),
        (16, 1, Words("16 bytes a load", "每次 16 字节"), "memory"),
        (16, 4, Words("4 loads of 16 bytes at once", "同时 4 次 16 字节"), "good"),
    )
    series = []
    for width, flight, label, role in shapes:
        rows = effects("occupancy", bytes_per_load=width, loads_in_flight=flight)
        series.append(
            Series(
                label, tuple(float(row["threads_per_sm"]) for row in rows),
                tuple(row["moved_bytes"] / row["time_s"] for row in rows), "line", role,
            )
        )  # fmt: skip
    return Lines(
        title=Words(
            "A copy's bandwidth by threads on each SM, measured",
            "拷贝带宽随每个 SM 的线程数变化，实测",
        ),
        x=Axis(Words("threads on each SM", "每个 SM 的线程数"), log=True),
        y=Axis(Words("bandwidth", "带宽"), "bytes/s"),
        series=tuple(series),
        note=Words(
            "Bytes on their way count, not threads: with more of them in flight per thread a "
            "quarter "
            "of the threads suffices.",
            "起作用的是在途字节数，而不是线程数：每个线程在途更多时，四分之一的线程就够了。",
        ),
    )


def _facts() -> Facts:
    h200 = device("h200")
    wait_s = effect("latency", bytes=SIZE_BYTES)["cold_load_s"]
    needed = h200.memory_bandwidth_bytes_per_s * wait_s
    units = h200.compute_units or 1
    return Facts(
        (
            Fact(Words("latency of device memory", "显存延迟"), wait_s, "s", "measured"),
            Fact(
                Words("bandwidth", "带宽"), h200.memory_bandwidth_bytes_per_s, "bytes/s",
                "datasheet",
            ),
            Fact(Words("bytes on their way", "在途字节数"), needed, "bytes", "computed"),
            Fact(Words("of each SM", "每个 SM"), needed / units, "bytes", "computed"),
            Fact(
                Words("threads with one 4-byte load each", "每线程一次 4 字节加载时的线程数"),
                needed / 4, "count", "computed",
            ),
        )
    )  # fmt: skip


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
        title=Words("Bandwidth that so many loads can ask for", "这些加载最多能要求的带宽"),
        sliders=(
            Slider("threads", Words("threads on each SM", "每个 SM 的线程数"), threads, "", 3),
            Slider("width", Words("bytes of a load", "每次加载字节数"), widths),
            Slider("flight", Words("loads in flight per thread", "每线程在途加载数"), flights),
        ),
        outputs=(
            Output(
                "rate", Words("bandwidth, at most", "带宽上限"), "bytes/s", tuple(reached),
                role="memory",
            ),
            Output(
                "share", Words("share of the peak", "占峰值"), "share", tuple(share), plotted=False
            ),
        ),
        x="threads",
        log_x=True,
        reading=Words(
            "At most {rate}, {share} of what the memory could give.",
            "至多 {rate}，为显存所能提供的 {share}。",
        ),
        note=Words(
            "Reads only, latency as of an idle memory: under load it grows, and the measured curve "
            "stays below.",
            "只计读取，延迟取显存空闲时的值：负载越高延迟越长，因此实测曲线更低。",
        ),
    )
