"""How much occupancy a kernel needs: Little's law with the device's own figures.

To keep a pipe of bandwidth B full whose latency is L, B x L bytes must be on their way at any time
(Little 1961). Occupancy is only one way to have them: a thread with several wide loads under way
does as much as several threads (Volkov 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.matmul import mm
from gpuscope.errors import UnsupportedError
from gpuscope.explain.numbers import an, exact_percent, percent, rate, seconds, size
from gpuscope.explain.operators import Target, dense, turned, work_on
from gpuscope.explain.residency import Residency
from gpuscope.explain.types import (
    Axis,
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Lines,
    Mark,
    Paragraph,
    Role,
    Series,
    Table,
    Words,
)
from gpuscope.program.types import Op

_WAYS = ((4, 1), (16, 1), (4, 4), (16, 2), (16, 4))
"""Bytes of a load, and loads that a thread has under way."""

_ROLES: tuple[Role, ...] = ("bad", "memory", "l2", "compute", "tensor")

_DEFAULT_LATENCY_S = 0.6e-6
"""As in `gpuscope.cost.bandwidth`, where no calibration gives a latency."""

_SIDE = 4096


@dataclass(frozen=True, slots=True)
class Hiding:
    """What is needed to hide the memory's latency: one sentence, and the figures."""

    summary: Words
    blocks: tuple[Block, ...]


def hiding(where: Target, found: Residency) -> Hiding:
    """How many bytes must be under way, and which occupancy that takes."""
    device = where.device
    latency = where.constants.get("bandwidth.latency_s", _DEFAULT_LATENCY_S)
    bandwidth = device.memory_bandwidth_bytes_per_s
    units = device.compute_units or 1
    needed = latency * bandwidth
    a_unit = needed / units
    most = device.max_threads_per_unit or 1
    unit = device.compute_unit_label
    reached = min(1.0, found.threads * 16 / a_unit)
    summary = Words(
        f"That is enough to draw {percent(reached)} of the memory bandwidth if each thread has one"
        f" 16-byte load under way ({size(a_unit)} for each {unit} must be). Occupancy is a means,"
        " not an end.",
        f"若每线程有一个 16 字节的加载在途，这足以用到 {percent(reached)} 的显存带宽"
        f"（每个 {unit} 需有 {size(a_unit)} 在途）：占用率只是手段。",
    )
    facts = Facts((
        Fact(Words("latency of a load from device memory", "从显存加载的延迟"), latency, "s",
             "calibrated" if where.constants.own("bandwidth.latency_s") else "estimated",
             note=Words("under load, address translation included", "有负载时，含地址转换")),
        Fact(Words("memory bandwidth", "显存带宽"), bandwidth, "bytes/s", device.origin(
            "memory_bandwidth_bytes_per_s") or ""),
        Fact(Words("bytes that must be under way", "必须在途的字节数"), needed, "bytes", "computed",
             note=Words(f"latency x bandwidth: {seconds(latency)} x {rate(bandwidth, 'B/s')}",
                        f"延迟 x 带宽：{seconds(latency)} x {rate(bandwidth, 'B/s')}")),
        Fact(Words(f"of each {unit}", f"每个 {unit}"), a_unit, "bytes", "computed"),
        Fact(Words("of each thread at full occupancy", "满占用率时每线程"), a_unit / most, "bytes",
             "computed"),
    ), Words("Little's law on this device", "本设备上的利特尔定律"))  # fmt: skip
    return Hiding(summary, (facts, _table(found, a_unit), _lines(found, a_unit), *_proof(where)))


def _table(found: Residency, a_unit: float) -> Table:
    most = found.device.max_threads_per_unit or 1
    rows: list[tuple[Cell, ...]] = []
    for width, loads in _WAYS:
        under_way = found.threads * width * loads
        need = a_unit / (width * loads * most)
        rows.append((
            Words(f"{loads} x {width} bytes", f"{loads} x {width} 字节"), float(under_way),
            min(1.0, under_way / a_unit), need if need <= 1 else None,
        ))  # fmt: skip
    unit = found.device.compute_unit_label
    return Table(
        Words("What this occupancy can draw from memory", "这样的占用率能用多少显存带宽"),
        (
            Column(Words("loads of a thread under way", "每线程在途的加载")),
            Column(Words(f"under way on {an(unit)}", f"一个 {unit} 的在途量"), "bytes"),
            Column(Words("bandwidth within reach", "可达带宽"), "share"),
            Column(Words("occupancy needed for all of it", "用满带宽所需占用率"), "share"),
        ),
        tuple(rows),
        note=Words("Not available: even full occupancy does not reach it that way.",
                   "不可用：即使满占用率也达不到。"),
    )  # fmt: skip


def _lines(found: Residency, a_unit: float) -> Lines:
    most = found.device.max_threads_per_unit or 1
    xs = tuple(at / 32 for at in range(1, 33))
    series = tuple(
        Series(
            Words(f"{loads} x {width} bytes a thread", f"每线程 {loads} x {width} 字节"), xs,
            tuple(min(1.0, x * most * width * loads / a_unit) for x in xs), role=role,
        )
        for (width, loads), role in zip(_WAYS, _ROLES, strict=True)
        if (width, loads) != (4, 4)  # the same as 1 x 16
    )  # fmt: skip
    return Lines(
        Words("Bandwidth within reach, by occupancy", "可达带宽与占用率"),
        Axis(Words("occupancy", "占用率"), "share"),
        Axis(Words("of the memory bandwidth", "占显存带宽"), "share"),
        series, (Mark(Words("now", "当前"), x=found.occupancy, role="good"),),
        Words("Wide loads, and several at once (unrolling, cp.async, TMA), replace occupancy.",
              "宽加载以及多个加载同时在途（循环展开、cp.async、TMA）可以代替占用率。"),
    )  # fmt: skip


def _proof(where: Target) -> tuple[Block, ...]:
    """A fast kernel of low occupancy: the library's own large product."""
    a = dense(_SIDE, _SIDE, dtype="float16")
    op = Op(0, "aten::mm", inputs=(a, turned(a)), outputs=(a,))
    try:
        kernels = mm(work_on(op, where))
    except UnsupportedError:
        return ()
    main = max(kernels, key=lambda kernel: kernel.flops)
    if main.occupancy is None:
        return ()
    speed = main.flops / main.duration_s
    share = speed / where.device.peak_flops_per_s("float16")
    side = f"{_SIDE} x {_SIDE} x {_SIDE}"
    return (
        Paragraph(
            Words(
                f"An example: the library's fp16 product {side} runs {main.block} threads a block"
                f" at an occupancy of {exact_percent(main.occupancy)} and is predicted to reach"
                f" {percent(share)} of the peak ({rate(speed, 'FLOP/s')}). Its few threads keep"
                " many results in registers, and copies run ahead of the arithmetic. More"
                " occupancy helps only a kernel that waits; then raise it, or give each thread"
                " more independent work.",
                f"例如：库的 fp16 矩阵乘 {side} 每块 {main.block} 线程，占用率仅"
                f" {exact_percent(main.occupancy)}，预测可达峰值的 {percent(share)}"
                f"（{rate(speed, 'FLOP/s')}）。少量线程把大量结果放在寄存器里，拷贝跑在计算前面。"
                "只有在等待的内核才需要更高的占用率；此时可提高它，或让每个线程有更多独立的工作。",
            ),
            "key",
        ),
    )
