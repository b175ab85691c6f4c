"""Lesson: grid, block, warp; and what happens when the threads of a warp part ways."""

from __future__ import annotations

from gpuscope.explain.types import (
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
    Words,
)
from gpuscope.explain.types import Link as Arrow
from gpuscope.hardware import device
from gpuscope.learn.effects import effects, machine
from gpuscope.learn.lessons.registry import lesson

LANES = 32


@lesson(
    "warps",
    2,
    Words("Grid, block, warp", "网格、线程块、线程束"),
    Words(
        "What runs when a kernel is launched, and what does an `if` cost?",
        "启动一个内核时究竟在运行什么？一个 if 的代价是多少？",
    ),
)
def warps() -> Explanation:
    """Make the lesson."""
    rows = effects("divergence")
    worst = rows[-1]["time_s"] / rows[0]["time_s"]
    return Explanation(
        topic="lesson",
        title=Words("Grid, block, warp", "网格、线程块、线程束"),
        summary=(
            Words(
                "A kernel is a grid of blocks. A block runs on one SM and shares its memory; it is "
                "cut into warps of 32 threads, and a warp is what the hardware issues: one "
                "instruction for all its threads at once.",
                "一个内核是由线程块组成的网格。线程块在一个 SM 上运行并共享它的内存；"
                "线程块又分成每 32 个线程一组的线程束，线程束才是硬件的发射单位："
                "一条指令同时作用于全部线程。",
            ),
            Words(
                "If threads of one warp take different ways, the ways run one after the other. "
                f"Measured: 32 different ways take {worst:.1f} times as long. Ways that differ "
                "only "
                "between warps cost nothing.",
                "如果同一线程束内的线程走不同分支，各分支依次执行。"
                f"实测：32 个不同分支用时是 {worst:.1f} 倍。只在线程束之间不同的分支没有额外代价。",
            ),
        ),
        sections=(
            Section(Words("Who is who", "层次"), (_levels(), _limits())),
            Section(Words("Divergence", "分支发散"), (_lanes(), _curve())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
        ),
        commands=(
            "gpuscope lens examples/lens/numba_copies.py:strided",
            "gpuscope explain occupancy --threads 256 --registers 64 --on h200",
        ),
        sources=(
            "NVIDIA, CUDA C++ Programming Guide, Thread Hierarchy; SIMT Architecture",
            f"Measured: benchmarks/warp_effects.py on an {machine().device}",
        ),
    )


def _levels() -> Diagram:
    units = device("h200").compute_units or 0
    return Diagram(
        title=Words("From a launch to the lanes", "从一次启动到每条通道"),
        nodes=tuple(
            Node(key, label, kind, x, 0.5, cells=cells)
            for key, label, kind, x, cells in (
                ("grid", Words("grid: one launch", "网格：一次启动"), "block", 0.12, 0),
                ("block", Words("block: ≤ 1,024 threads", "线程块 ≤ 1,024"), "block", 0.38, 0),
                ("sm", Words(f"one of {units} SMs", f"{units} 个 SM 之一"), "compute", 0.64, 4),
                ("warp", Words("warp: 32 threads", "线程束：32 个线程"), "block", 0.89, LANES),
            )
        ),
        links=(
            Arrow("grid", "block", Words("is cut into", "切成")),
            Arrow("block", "sm", Words("lands on", "落在")),
            Arrow("sm", "warp", Words("issues", "发射")),
        ),
    )


def _limits() -> Facts:
    h200 = device("h200")
    units, threads = h200.compute_units or 0, h200.max_threads_per_unit or 0
    rows = (
        (Words("SMs of an H200", "H200 的 SM 数"), units),
        (Words("threads that are resident on one SM", "一个 SM 上驻留的线程数"), threads),
        (Words("threads resident at once", "同时驻留的线程总数"), units * threads),
        (Words("warps resident on one SM", "一个 SM 上驻留的线程束"), h200.max_warps_per_unit),
        (Words("threads of a block, at most", "线程块的线程数上限"), h200.max_threads_per_block),
    )
    return Facts(tuple(Fact(label, value, "count", "datasheet") for label, value in rows))


def _lanes() -> HeatMap:
    ways = 4
    return HeatMap(
        title=Words(
            f"A warp whose lanes take {ways} ways: who works in which pass",
            f"线程束的通道走 {ways} 个分支：每一趟谁在工作",
        ),
        x=Axis(Words("lane", "通道")),
        y=Axis(Words("pass", "趟")),
        values=tuple(
            tuple(0.0 if lane % ways == turn else 1.0 for lane in range(LANES))
            for turn in range(ways)
        ),
        classes=(Words("works", "工作"), Words("waits", "等待")),
        roles=("good", "idle"),
    )


def _curve() -> Lines:
    found = effects("divergence")
    one = found[0]["time_s"]
    ways = tuple(float(row["branches"]) for row in found)
    return Lines(
        title=Words("Time by number of ways within a warp", "用时随线程束内分支数变化"),
        x=Axis(Words("ways", "分支数"), log=True),
        y=Axis(Words("time, one way = 1", "用时（一个分支为 1）"), "ratio", log=True),
        series=(
            Series(
                Words("measured", "实测"), ways, tuple(row["time_s"] / one for row in found),
                "points", "bad",
            ),
            Series(Words("one after the other", "依次执行"), ways, ways, "line", "compute"),
        ),
    )  # fmt: skip


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
        title=Words("An `if` that each thread takes at random", "每个线程随机进入的 if"),
        sliders=(
            Slider("share", Words("threads that take it", "进入的线程比例"), shares, "share", 2),
            Slider("cost", Words("its work, the other = 1", "其工作量（另一为 1）"), costs, "", 2),
        ),
        outputs=(
            Output(
                "time", Words("time of a warp", "线程束用时"), "", tuple(time), role="bad",
            ),
            Output(
                "ideal", Words("if threads could run alone", "若线程可单独运行"), "", tuple(ideal),
                role="good",
            ),
            Output(
                "both", Words("warps that pay for both ways", "两个分支都要付出的线程束"), "share",
                tuple(both), plotted=False,
            ),
        ),
        x="share",
        reading=Words(
            "{both} of the warps pay for both ways: {time} instead of {ideal}.",
            "{both} 的线程束要为两个分支都付出：{time}，而不是 {ideal}。",
        ),
        note=Words(
            "A warp of 32 pays for a way as soon as one thread takes it: 1 − (1 − p)^32.",
            "32 个线程中只要有一个进入分支，整个线程束就要付出：1 − (1 − p)^32。",
        ),
    )
