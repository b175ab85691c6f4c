"""How much occupancy a kernel needs: Little's law with the device's own figures.

To keep a pipe of bandwidth B full whose latency is L, B x L bytes must be on their way at any time
(Little 1961). Occupancy is only one way to have them: a thread with several wide loads under way
does as much as several threads (Volkov 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.cost.matmul.model import mm
from gpuscope.document.blocks import (
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
)
from gpuscope.document.quantities import Bytes, Percent, Rate, Seconds, Share
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.explanation.limits import an
from gpuscope.explanation.operators import Target, dense, turned, work_on
from gpuscope.explanation.residency import Residency
from gpuscope.program.types import Op

_WAYS = ((4, 1), (16, 1), (4, 4), (16, 2), (16, 4))
"""Bytes of a load, and loads that a thread has under way."""

_ROLES: tuple[Role, ...] = ("bad", "memory", "l2", "compute", "tensor")

_SIDE = 4096


@dataclass(frozen=True, slots=True)
class Hiding:
    """What is needed to hide the memory's latency: one sentence, and the figures."""

    summary: Text
    blocks: tuple[Block, ...]


def hiding(where: Target, found: Residency) -> Hiding:
    """How many bytes must be under way, and which occupancy that takes."""
    device = where.device
    latency = where.constants.value("bandwidth.latency_s")
    bandwidth = device.memory_bandwidth_bytes_per_s
    units = device.compute_units or 1
    needed = latency * bandwidth
    a_unit = needed / units
    most = device.max_threads_per_unit or 1
    unit = device.compute_unit_label
    reached = min(1.0, found.threads * 16 / a_unit)
    summary = Text(
        "That is enough to draw {reached} of the memory bandwidth if each thread has one 16-byte "
        "load under way ({a_unit} for each {unit} must be). Occupancy is a means, not an end.",
        reached=Percent(reached),
        a_unit=Bytes(a_unit),
        unit=unit,
    )
    facts = Facts(
        (
            Fact(
                Text("latency of a load from device memory"),
                latency,
                "s",
                "calibrated" if where.constants.own("bandwidth.latency_s") else "estimated",
                note=Text("under load, address translation included"),
            ),
            Fact(
                Text("memory bandwidth"),
                bandwidth,
                "bytes/s",
                device.origin("memory_bandwidth_bytes_per_s") or "",
            ),
            Fact(
                Text("bytes that must be under way"),
                needed,
                "bytes",
                "computed",
                note=Text(
                    "latency x bandwidth: {latency} x {bandwidth}",
                    latency=Seconds(latency),
                    bandwidth=Rate(bandwidth, "B/s"),
                ),
            ),
            Fact(Text("of each {unit}", unit=unit), a_unit, "bytes", "computed"),
            Fact(Text("of each thread at full occupancy"), a_unit / most, "bytes", "computed"),
        ),
        Text("Little's law on this device"),
    )
    return Hiding(summary, (facts, _table(found, a_unit), _lines(found, a_unit), *_proof(where)))


def _table(found: Residency, a_unit: float) -> Table:
    most = found.device.max_threads_per_unit or 1
    rows: list[tuple[Cell, ...]] = []
    for width, loads in _WAYS:
        under_way = found.threads * width * loads
        need = a_unit / (width * loads * most)
        rows.append(
            (
                Text("{loads} x {width} bytes", loads=loads, width=width),
                float(under_way),
                min(1.0, under_way / a_unit),
                need if need <= 1 else None,
            )
        )
    unit = found.device.compute_unit_label
    return Table(
        Text("What this occupancy can draw from memory"),
        (
            Column(Text("loads of a thread under way")),
            Column(Text("under way on {unit}", unit=an(unit)), "bytes"),
            Column(Text("bandwidth within reach"), "share"),
            Column(Text("occupancy needed for all of it"), "share"),
        ),
        tuple(rows),
        note=Text("Not available: even full occupancy does not reach it that way."),
    )


def _lines(found: Residency, a_unit: float) -> Lines:
    most = found.device.max_threads_per_unit or 1
    xs = tuple(at / 32 for at in range(1, 33))
    series = tuple(
        Series(
            Text("{loads} x {width} bytes a thread", loads=loads, width=width),
            xs,
            tuple(min(1.0, x * most * width * loads / a_unit) for x in xs),
            role=role,
        )
        for (width, loads), role in zip(_WAYS, _ROLES, strict=True)
        if (width, loads) != (4, 4)  # the same as 1 x 16
    )
    return Lines(
        Text("Bandwidth within reach, by occupancy"),
        Axis(Text("occupancy"), "share"),
        Axis(Text("of the memory bandwidth"), "share"),
        series,
        (Mark(Text("now"), x=found.occupancy, role="good"),),
        Text("Wide loads, and several at once (unrolling, cp.async, TMA), replace occupancy."),
    )


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
            Text(
                "An example: the library's fp16 product {side} runs {block} threads a block at an "
                "occupancy of {occupancy} and is predicted to reach {share} of the peak ({speed}). "
                "Its few threads keep many results in registers, and copies run ahead of the "
                "arithmetic. More occupancy helps only a kernel that waits; then raise it, or give "
                "each thread more independent work.",
                side=side,
                block=main.block,
                occupancy=Share(main.occupancy),
                share=Percent(share),
                speed=Rate(speed, "FLOP/s"),
            ),
            "key",
        ),
    )
