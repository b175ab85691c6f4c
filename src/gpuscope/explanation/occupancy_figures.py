"""Figures of `explain occupancy`: curves, other block sizes, the explorer."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.document.blocks import (
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
)
from gpuscope.document.text import Text
from gpuscope.explanation.residency import Launch, Residency, limits_of, occupancies

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
        _line(
            found,
            Text("threads of a block"),
            "count",
            threads,
            [launch.registers] * len(threads),
            [launch.shared_bytes] * len(threads),
            threads,
            launch.threads,
            "compute",
        ),
        _line(
            found,
            Text("registers of a thread"),
            "count",
            [launch.threads] * len(registers),
            registers,
            [launch.shared_bytes] * len(registers),
            registers,
            launch.registers,
            "tensor",
        ),
        _line(
            found,
            Text("shared memory of a block"),
            "bytes",
            [launch.threads] * len(shared),
            [launch.registers] * len(shared),
            shared,
            shared,
            launch.shared_bytes,
            "shared",
        ),
    )


def _line(
    found: Residency,
    name: Text,
    unit: str,
    threads: Sequence[int],
    registers: Sequence[int],
    shared: Sequence[int],
    xs: Sequence[int],
    now: int,
    role: Role,
) -> Lines:
    ys = occupancies(found.device, threads, registers, shared)
    return Lines(
        Text("Occupancy over {name}", name=name),
        Axis(name, unit),
        Axis(Text("occupancy"), "share"),
        (Series(Text("occupancy"), tuple(float(x) for x in xs), tuple(ys), "steps", role),),
        (Mark(Text("now"), float(now), found.occupancy, "good"),),
    )


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
        rows.append(
            (
                float(threads),
                float(shared),
                float(blocks),
                blocks * warps / found.most_warps,
                _limit(limits),
            )
        )
    return Table(
        Text("Other block sizes, with as much for each thread"),
        (
            Column(Text("threads"), "count"),
            Column(Text("shared memory"), "bytes"),
            Column(Text("blocks"), "count"),
            Column(Text("occupancy"), "share"),
            Column(Text("limited by")),
        ),
        tuple(rows),
        tuple(marked),
    )


def _limit(limits: tuple[int, int, int, int]) -> Text:
    names = (Text("threads"), Text("registers"), Text("shared memory"), Text("block slots"))
    if min(limits) == 0:
        return Text("does not launch: registers")
    return names[limits.index(min(limits))]


def explorer(found: Residency) -> Explorer:
    """Sliders for threads, registers and shared memory."""
    device, launch = found.device, found.launch
    warp = device.warp_size or 32
    most = device.shared_memory_per_block_bytes or 0
    threads = sorted(
        {
            *(t for t in range(warp, (device.max_threads_per_block or warp) + 1, max(warp, 64))),
            warp,
            launch.threads,
        }
    )
    registers = sorted(
        {r for r in (*_REGISTERS, launch.registers) if r <= (device.registers_per_thread or 255)}
    )
    step = max(most // 16 // 1024, 1) * 1024
    shared = sorted({*range(0, most + 1, step), launch.shared_bytes, most})
    points = [(t, r, s) for r in registers for s in shared for t in threads]
    shares = occupancies(
        device, [p[0] for p in points], [p[1] for p in points], [p[2] for p in points]
    )
    limits = [limits_of(device, Launch(*point)) for point in points]
    return Explorer(
        Text("Move the launch"),
        (
            Slider(
                "registers",
                Text("registers of a thread"),
                tuple(float(r) for r in registers),
                start=registers.index(launch.registers),
            ),
            Slider(
                "shared",
                Text("shared memory of a block"),
                tuple(float(s) for s in shared),
                "bytes",
                start=shared.index(launch.shared_bytes),
            ),
            Slider(
                "threads",
                Text("threads of a block"),
                tuple(float(t) for t in threads),
                start=threads.index(launch.threads),
            ),
        ),
        (
            Output(
                "occupancy",
                Text("occupancy"),
                "share",
                tuple(share or None for share in shares),
                role="compute",
            ),
            Output(
                "blocks",
                Text("blocks at once"),
                "count",
                tuple(float(min(each)) for each in limits),
                plotted=False,
            ),
            Output("limit", Text("limited by"), "", tuple(map(_limit, limits)), plotted=False),
        ),
        x="threads",
        reading=Text(
            "{threads} threads of {registers} registers with {shared}: {blocks} blocks, "
            "{occupancy}, limited by {limit}."
        ),
    )
