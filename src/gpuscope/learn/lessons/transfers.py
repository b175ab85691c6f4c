"""Lesson: transfers, pinned memory, streams and overlap."""

from __future__ import annotations

from gpuscope.explain.numbers import rate, seconds
from gpuscope.explain.registry import explain
from gpuscope.explain.types import Bar, Bars, Explanation, Part, Role, Section, Words
from gpuscope.learn.effects import effect, effects, machine
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.registry import lesson

NAMES: dict[str, tuple[Words, Role]] = {
    "pageable copy": (Words("copy from pageable memory", "从可分页内存拷贝"), "bad"),
    "pinned copy": (Words("copy from pinned memory", "从锁页内存拷贝"), "copy"),
    "work": (Words("work on the device", "设备上的计算"), "compute"),
    "one after the other": (Words("pinned copy, then work", "先拷贝（锁页）后计算"), "other"),
    "in 16 chunks, overlapped": (
        Words("in 16 chunks on two streams", "分 16 块，两个流重叠"),
        "good",
    ),
}


@lesson(
    "transfers",
    8,
    Words("Transfers, pinned memory, overlap", "传输、锁页内存与重叠"),
    Words(
        "How does data get to the GPU, and how can the wait be hidden?",
        "数据怎样到达 GPU，等待又怎样被隐藏？",
    ),
)
def transfers() -> Explanation:
    """Make the lesson."""
    ways = {row["way"]: row["time_s"] for row in effects("overlap")}
    pinned = effect("overlap", way="pinned copy")
    copy = explain("transfer", "1GB", on="h200")
    return Explanation(
        topic="lesson",
        title=Words("Transfers", "传输"),
        summary=(
            Words(
                "The host bus is far narrower than device memory. From pinned pages the GPU "
                "fetches "
                "by itself; pageable ones the driver copies to a pinned buffer first.",
                "主机总线比显存窄得多。锁页内存可由 GPU 直接读取；"
                "可分页内存要先由驱动复制到锁页缓冲区。",
            ),
            Words(
                f"Measured, 1 GiB: {seconds(ways['pageable copy'])} from pageable memory, "
                f"{seconds(ways['pinned copy'])} from pinned "
                f"({rate(pinned['bytes'] / pinned['time_s'], 'B/s')}).",
                f"实测 1 GiB：可分页内存 {seconds(ways['pageable copy'])}，"
                f"锁页内存 {seconds(ways['pinned copy'])}"
                f"（{rate(pinned['bytes'] / pinned['time_s'], 'B/s')}）。",
            ),
            Words(
                "Cut into chunks on two streams, copying and computing run side by side: "
                f"{seconds(ways['in 16 chunks, overlapped'])} instead of "
                f"{seconds(ways['one after the other'])}.",
                "切成小块并放到两个流上，拷贝与计算可同时进行："
                f"{seconds(ways['in 16 chunks, overlapped'])}，而不是 "
                f"{seconds(ways['one after the other'])}。",
            ),
        ),
        sections=(
            Section(Words("Measured", "实测"), (_bars(),)),
            *sections(copy, "The way of the bytes", "Under arithmetic", "When copying", "Move it"),
        ),
        commands=(
            "gpuscope explain transfer 1GB --on h200",
            "gpuscope explain transfer 64KB --on rtx-4090",
        ),
        sources=(*copy.sources, f"Measured: benchmarks/warp_effects.py on an {machine().device}"),
        assumptions=copy.assumptions,
    )


def _bars() -> Bars:
    return Bars(
        title=Words("One GiB to the device and work on it", "把 1 GiB 送到设备并计算"),
        unit="s",
        bars=tuple(
            Bar(label, (Part(label, row["time_s"], role),))
            for row in effects("overlap")
            for label, role in (NAMES[row["way"]],)
        ),
    )
