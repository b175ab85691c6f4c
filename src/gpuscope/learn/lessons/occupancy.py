"""Lesson: occupancy, what limits it, and why less of it is often enough."""

from __future__ import annotations

from gpuscope.explain.registry import explain
from gpuscope.explain.types import Axis, Explanation, Lines, Role, Section, Series, Words
from gpuscope.hardware import device
from gpuscope.learn.effects import effects, machine
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "occupancy",
    5,
    Words("Occupancy", "占用率"),
    Words("Is a kernel at 25 % occupancy a bad kernel?", "占用率只有 25 % 的内核就一定不好吗？"),
)
def occupancy() -> Explanation:
    """Make the lesson."""
    launch = explain("occupancy", threads=256, registers=64, shared="48KB", on="h200")
    threads = device("h200").max_threads_per_unit or 1
    quarter = effects("occupancy", loads_in_flight=4, threads_per_sm=threads // 4)[0]["time_s"]
    full = effects("occupancy", loads_in_flight=4, threads_per_sm=threads)[0]["time_s"]
    return Explanation(
        topic="lesson",
        title=Words("Occupancy", "占用率"),
        summary=(
            Words(
                "Occupancy is the share of an SM's warp places that are taken. Threads of a block, "
                "registers and shared memory each allow so many blocks; the smallest number "
                "counts.",
                "占用率是一个 SM 的线程束位置被占用的比例。线程数、"
                "寄存器和共享内存各自允许若干线程块，"
                "其中最小的数目起作用。",
            ),
            Words(
                "It is a means: enough loads must be on their way to hide the latency. "
                "Measured: a copy "
                f"with four 16-byte loads per thread takes {quarter * 1e6:.0f} µs at 25 % "
                "occupancy and "
                f"{full * 1e6:.0f} µs at 100 %.",
                "它只是手段：要有足够多的加载在途才能隐藏延迟。实测：每线程同时 4 次 16 "
                "字节加载的拷贝，"
                f"占用率 25 % 时用时 {quarter * 1e6:.0f} µs，100 % 时 {full * 1e6:.0f} µs。",
            ),
        ),
        sections=(
            Section(Words("Measured", "实测"), (_curve(threads),)),
            *sections(launch, "What fits", "How to fit more", "Over each quantity", "How much"),
        ),
        commands=(
            "gpuscope explain occupancy --threads 256 --registers 64 --shared 48KB --on h200",
            "gpuscope explain occupancy --threads 1024 --registers 40 --on rtx-4090",
        ),
        sources=(*launch.sources, f"Measured: benchmarks/warp_effects.py on an {machine().device}"),
        assumptions=launch.assumptions,
    )


def _curve(threads: int) -> Lines:
    shapes: tuple[tuple[int, int, Words, Role], ...] = (
        (4, 1, Words("one 4-byte load per thread", "每线程 1 次 4 字节"), "bad"),
        (16, 1, Words("one 16-byte load", "1 次 16 字节"), "memory"),
        (16, 4, Words("four 16-byte loads", "4 次 16 字节"), "good"),
    )
    found = []
    for width, flight, label, role in shapes:
        rows = effects("occupancy", bytes_per_load=width, loads_in_flight=flight)
        shares = tuple(row["threads_per_sm"] / threads for row in rows)
        rates = tuple(row["moved_bytes"] / row["time_s"] for row in rows)
        found.append(Series(label, shares, rates, "line", role))
    return Lines(
        title=Words("Bandwidth of a copy by occupancy", "拷贝带宽随占用率变化"),
        x=Axis(Words("occupancy", "占用率"), "share"),
        y=Axis(Words("bandwidth", "带宽"), "bytes/s"),
        series=tuple(found),
        note=Words(
            "The more bytes each thread has on their way, the less occupancy is needed.",
            "每个线程在途的字节越多，需要的占用率越低。",
        ),
    )
