"""Figures of `explain occupancy`: curves, other block sizes, the explorer."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.explain.residency import (
    Launch,
    Residency,
    limits_of,
    occupancies,
)
from gpuscope.explain.types import (
    Axis,
    Cell,
    Column,
    Explorer,
    Lines,
    Mark,
    Output,
    Role,
    Series,
    Slider,
    Table,
    Words,
)

_BLOCKS = (32, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024)
_REGISTERS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 168, 200, 255)


def curves(found: Residency) -> tuple[Lines, ...]:
    """Occupancy over threads, registers and shared memory, the other two as they are."""
    device, launch = found.device, found.launch
    threads = list(range(1, (device.max_threads_per_block or 1024) + 1))
    registers = list(range(16, (device.registers_per_thread or 255) + 1))
    registers = sorted({*registers, launch.registers})
    most = device.shared_memory_per_block_bytes or 0
    shared = sorted({*range(0, most + 1, 1024), launch.shared_bytes})
    return (
        _line(found, "threads of a block", "每块线程数", "count", threads,
              [launch.registers] * len(threads), [launch.shared_bytes] * len(threads),
              threads, launch.threads, "compute"),
        _line(found, "registers of a thread", "每线程寄存器", "count",
              [launch.threads] * len(registers), registers,
              [launch.shared_bytes] * len(registers), registers, launch.registers, "tensor"),
        _line(found, "shared memory of a block", "每块共享内存", "bytes",
              [launch.threads] * len(shared), [launch.registers] * len(shared), shared,
              shared, launch.shared_bytes, "shared"),
    )  # fmt: skip


def _line(
    found: Residency, name: str, name_zh: str, unit: str, threads: Sequence[int],
    registers: Sequence[int], shared: Sequence[int], xs: Sequence[int], now: int, role: Role,
) -> Lines:  # fmt: skip
    ys = occupancies(found.device, threads, registers, shared)
    return Lines(
        Words(f"Occupancy over {name}", f"占用率随{name_zh}变化"),
        Axis(Words(name, name_zh), unit), Axis(Words("occupancy", "占用率"), "share"),
        (Series(Words("occupancy", "占用率"), tuple(float(x) for x in xs), tuple(ys), "steps",
                role),),
        (Mark(Words("now", "当前"), float(now), found.occupancy, "good"),),
    )  # fmt: skip


def other_blocks(found: Residency) -> Table:
    """Other block sizes, registers of a thread and shared memory of a thread kept."""
    device, launch = found.device, found.launch
    sizes = sorted({*_BLOCKS, launch.threads})
    rows: list[tuple[Cell, ...]] = []
    marked = []
    for threads in sizes:
        if threads > (device.max_threads_per_block or 0):
            continue
        shared = round(launch.shared_bytes * threads / launch.threads)
        if shared > (device.shared_memory_per_block_bytes or 0):
            continue
        limits = limits_of(device, Launch(threads, launch.registers, shared))
        blocks = min(limits)
        if threads == launch.threads:
            marked.append(len(rows))
        warps = -(-threads // (device.warp_size or 32))
        rows.append((
            float(threads), float(shared), float(blocks), blocks * warps / found.most_warps,
            _limit(limits),
        ))  # fmt: skip
    return Table(
        Words("Other block sizes, with as much for each thread",
              "其他块大小（每线程的资源不变）"),
        (
            Column(Words("threads", "线程"), "count"),
            Column(Words("shared memory", "共享内存"), "bytes"),
            Column(Words("blocks", "线程块"), "count"),
            Column(Words("occupancy", "占用率"), "share"),
            Column(Words("limited by", "受限于")),
        ),
        tuple(rows), tuple(marked),
    )  # fmt: skip


def _limit(limits: tuple[int, int, int, int]) -> Words:
    names = (
        Words("threads", "线程数"), Words("registers", "寄存器"),
        Words("shared memory", "共享内存"), Words("block slots", "线程块槽位"),
    )  # fmt: skip
    if min(limits) == 0:
        return Words("does not launch: registers", "无法启动：寄存器不够")
    return names[limits.index(min(limits))]


def explorer(found: Residency) -> Explorer:
    """Sliders for threads, registers and shared memory."""
    device, launch = found.device, found.launch
    warp = device.warp_size or 32
    most = device.shared_memory_per_block_bytes or 0
    threads = sorted({*(t for t in range(warp, (device.max_threads_per_block or warp) + 1,
                                         max(warp, 64))), warp, launch.threads})  # fmt: skip
    registers = sorted({r for r in (*_REGISTERS, launch.registers)
                        if r <= (device.registers_per_thread or 255)})  # fmt: skip
    step = max(most // 16 // 1024, 1) * 1024
    shared = sorted({*range(0, most + 1, step), launch.shared_bytes, most})
    points = [(t, r, s) for r in registers for s in shared for t in threads]
    shares = occupancies(
        device, [p[0] for p in points], [p[1] for p in points], [p[2] for p in points]
    )
    limits = [limits_of(device, Launch(*point)) for point in points]
    return Explorer(
        Words("Move the launch", "拖动启动参数试试"),
        (
            Slider("registers", Words("registers of a thread", "每线程寄存器"),
                   tuple(float(r) for r in registers), start=registers.index(launch.registers)),
            Slider("shared", Words("shared memory of a block", "每块共享内存"),
                   tuple(float(s) for s in shared), "bytes",
                   start=shared.index(launch.shared_bytes)),
            Slider("threads", Words("threads of a block", "每块线程数"),
                   tuple(float(t) for t in threads), start=threads.index(launch.threads)),
        ),
        (
            Output("occupancy", Words("occupancy", "占用率"), "share",
                   tuple(share or None for share in shares), role="compute"),
            Output("blocks", Words("blocks at once", "驻留线程块"), "count",
                   tuple(float(min(each)) for each in limits), plotted=False),
            Output("limit", Words("limited by", "受限于"), "", tuple(map(_limit, limits)),
                   plotted=False),
        ),
        x="threads",
        reading=Words(
            "{threads} threads of {registers} registers with {shared}: {blocks} blocks, "
            "{occupancy}, limited by {limit}.",
            "{threads} 线程、{registers} 寄存器、{shared} 共享内存：{blocks} 个线程块，"
            "占用率 {occupancy}，受限于{limit}。",
        ),
    )  # fmt: skip
