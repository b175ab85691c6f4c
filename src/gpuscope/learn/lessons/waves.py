"""Lesson: blocks run in waves; the last one is seldom full."""

from __future__ import annotations

import math

from gpuscope.explain.registry import explain
from gpuscope.explain.types import (
    Axis,
    Explanation,
    Explorer,
    HeatMap,
    Lines,
    Output,
    Section,
    Series,
    Slider,
    Words,
)
from gpuscope.hardware import device
from gpuscope.learn.effects import effect, effects, machine
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "waves",
    9,
    Words("Waves and tiles", "波次与分块"),
    Words(
        "Why can one more row of a matrix cost as much as thousands?",
        "为什么矩阵多一行，代价可能抵得上几千行？",
    ),
)
def waves() -> Explanation:
    """Make the lesson."""
    slots = effects("waves")[0]["slots"]
    full = effect("waves", kernel="hold", blocks=slots)["time_s"]
    over = effect("waves", kernel="hold", blocks=slots + 1)["time_s"]
    product = explain("matmul", 4096, 4096, 4096, dtype="bf16", on="h200")
    return Explanation(
        topic="lesson",
        title=Words("Waves and tiles", "波次与分块"),
        summary=(
            Words(
                "A kernel is a grid of blocks; so many fit on the SMs at once (a wave), the "
                "rest waits. "
                "Blocks of equal work finish together, so the time goes up in steps, one a wave.",
                "一个内核是一批线程块；SM 同时只能容纳一部分（一个波次），其余等待。"
                "工作量相同的线程块同时结束，因此时间按波次阶梯式上升。",
            ),
            Words(
                f"Measured on an {machine().device}: {slots} blocks of 1,024 threads take "
                f"{full * 1e6:.0f} µs, {slots + 1} take {over * 1e6:.0f} µs.",
                f"在 {machine().device} 上实测：{slots} 个 1,024 线程的线程块用时 "
                f"{full * 1e6:.0f} µs，"
                f"{slots + 1} 个用时 {over * 1e6:.0f} µs。",
            ),
            Words(
                "A matrix product is cut into tiles, one block each: its sizes decide how full "
                "the last "
                "wave is.",
                "矩阵乘法被切成分块，每块一个线程块：矩阵的尺寸决定最后一个波次有多满。",
            ),
        ),
        sections=(
            Section(Words("Steps", "阶梯"), (_steps(), _landing())),
            Section(Words("Try it", "动手试试"), (_explorer(),)),
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
            f"Measured: benchmarks/warp_effects.py on an {machine().device}",
            *product.sources,
        ),
    )


def _steps() -> Lines:
    held = effects("waves", kernel="hold")
    slots = held[0]["slots"]
    one = effect("waves", kernel="hold", blocks=slots)["time_s"]
    blocks = tuple(float(row["blocks"]) for row in held)
    return Lines(
        title=Words("Time by number of blocks", "用时随线程块数变化"),
        x=Axis(Words("blocks", "线程块数")),
        y=Axis(Words("time", "用时"), "s"),
        series=(
            Series(
                Words("measured", "实测"), blocks, tuple(row["time_s"] for row in held), "points",
                "bad",
            ),
            Series(
                Words("whole waves", "整数个波次"), blocks,
                tuple(math.ceil(b / slots) * one for b in blocks), "steps", "compute",
            ),
        ),
        note=Words(
            "Each block holds its place for a fixed time. Blocks that share an SM's arithmetic get "
            "faster when fewer run, so real steps are softer.",
            "每个线程块占用固定时长。若线程块共享 SM 的算力，同时运行的越少各自就越快，"
            "实际的台阶因此更平缓。",
        ),
    )  # fmt: skip


def _landing() -> HeatMap:
    units = device("h200").compute_units or 1
    blocks = units + units // 4
    rows = []
    for wave in range(2):
        left = blocks - wave * units
        rows.append(tuple(0.0 if sm < left else 1.0 for sm in range(units)))
    return HeatMap(
        title=Words(
            f"{blocks} equal blocks on {units} SMs, one at a time on each",
            f"{blocks} 个相同的线程块落在 {units} 个 SM 上，每个 SM 一次一个",
        ),
        x=Axis(Words("SM", "SM")),
        y=Axis(Words("wave", "波次")),
        values=tuple(rows),
        y_labels=("1", "2"),
        classes=(Words("busy", "忙碌"), Words("idle", "空闲")),
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
        title=Words("How full a square result's waves are", "方阵结果的各个波次有多满"),
        sliders=(
            Slider("device", Words("device", "设备"), names),
            Slider("tile", Words("tile side", "分块边长"), tuple(map(float, tiles)), "", 1),
            Slider("size", Words("side of the matrix", "矩阵边长"), sizes, "", 63),
        ),
        outputs=(
            Output(
                "used",
                Words("share of the SMs' time that is useful", "SM 时间中有用的比例"),
                "share",
                tuple(used),
                role="compute",
            ),
            Output("waves", Words("waves", "波次"), "", tuple(found_waves), plotted=False),
        ),
        x="size",
        reading=Words(
            "On {device} a {size} x {size} result in {tile} x {tile} tiles takes {waves} waves; "
            "{used} of the SMs' time is useful.",
            "在 {device} 上，{size} x {size} 的结果按 {tile} x {tile} 分块需要 {waves} 个波次；"
            "SM 时间的 {used} 是有用的。",
        ),
        note=Words("One block on each SM at a time.", "每个 SM 一次一个线程块。"),
    )
