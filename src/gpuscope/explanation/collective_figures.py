"""The figures of a collective: its two parts, every way to run it, the way at each size."""

from __future__ import annotations

from math import inf

from gpuscope.cost.collective.ways import Way
from gpuscope.document.blocks import (
    Bar,
    Bars,
    Block,
    Column,
    Fact,
    Facts,
    Paragraph,
    Part,
    Section,
    Table,
)
from gpuscope.document.quantities import Bytes, Number, Rate, Seconds
from gpuscope.document.text import Text, joined, plural, verbatim
from gpuscope.explanation.collective_case import CollectiveCase
from gpuscope.explanation.collective_curves import ALGORITHMS, even_bytes, ways_by_size
from gpuscope.explanation.equal_work import ITEM_BYTES

_DOES = {
    "all_reduce": Text("Every rank has a tensor of this size; afterwards each has the sum of all."),
    "all_gather": Text(
        "Every rank has one part; afterwards each has all parts, together of this size."
    ),
    "reduce_scatter": Text(
        "Every rank has a tensor of this size; afterwards each has its own part of the sum."
    ),
    "all_to_all": Text(
        "Every rank holds this much and sends another part of it to each of the others."
    ),
    "broadcast": Text("One rank has a tensor of this size; afterwards all have it."),
}


def cost(case: CollectiveCase) -> Section:
    """Time, both of its parts, bytes, bandwidths, and the links they are held against."""
    taken = case.taken
    low, high = case.interval_s
    device = case.device
    items = f"{Number(case.elements, ',')} x {ITEM_BYTES[case.dtype]} B"
    moving = f"{Bytes(taken.sent_bytes)} / {Rate(taken.bytes_per_s, 'B/s')}"
    rows = [
        Fact(Text("time"), taken.time_s, "s", case.origin, low, high),
        Fact(
            Text("latency part (alpha)"), taken.latency_s, "s", case.origin, note=_steps_note(case)
        ),
        Fact(
            Text("bandwidth part (beta)"), taken.moving_s, "s", case.origin, note=verbatim(moving)
        ),
        Fact(Text("message"), float(case.size_bytes), "bytes", note=verbatim(items)),
        Fact(Text("each rank sends"), taken.sent_bytes, "bytes", "computed", note=_sent_note(case)),
        Fact(
            Text("algorithm bandwidth"),
            case.size_bytes / taken.time_s,
            "bytes/s",
            "computed",
            note=Text("message / time"),
        ),
        Fact(
            Text("bus bandwidth"),
            case.bus_bytes_per_s(case.size_bytes, taken.time_s),
            "bytes/s",
            "computed",
            note=Text(
                "algorithm bandwidth x {bus_factor}, as nccl-tests count",
                bus_factor=Number(case.bus_factor),
            ),
        ),
        Fact(
            Text("message where both parts are equal"),
            even_bytes(case),
            "bytes",
            "computed",
            note=Text("alpha x size / beta"),
        ),
    ]
    if case.link is not None and case.group.link_bytes_per_s < inf:
        rows.append(
            Fact(
                Text("a rank's link, one way"),
                case.group.link_bytes_per_s,
                "bytes/s",
                case.link.bandwidth_origin,
                note=verbatim(case.link.name),
            )
        )
    fabric = case.cluster.scale_out
    if case.group.domains > 1 and fabric is not None:
        rows.append(
            Fact(
                Text("a rank's share of the fabric"),
                case.group.fabric_bytes_per_s,
                "bytes/s",
                fabric.bandwidth_origin,
                note=verbatim(fabric.name),
            )
        )
    blocks: list[Block] = [Paragraph(_DOES[case.operation]), Facts(tuple(rows))]
    bus = case.bus_bytes_per_s(case.size_bytes, taken.time_s)
    if taken.algorithm == "nvls" or (
        case.operation == "all_reduce" and bus > case.roof_bytes_per_s
    ):
        blocks.append(
            Paragraph(
                Text(
                    "The switches add (NVLS): each rank sends its data once, not twice, so the bus "
                    "bandwidth, which counts a ring's bytes, may exceed the link's rate."
                ),
                "doubt",
            )
        )
    title = Text("What it costs on {device}", device=device.name)
    return Section(title, tuple(blocks))


def _steps_note(case: CollectiveCase) -> Text:
    taken = case.taken
    inside, fabric = taken.steps - taken.fabric_steps, taken.fabric_steps
    parts = [Text("{begin} to begin", begin=Seconds(taken.base_s))]
    if inside:
        link = Seconds(taken.link_s)
        parts.append(plural("{count} step x {each}", "{count} steps x {each}", inside, each=link))
    if fabric:
        each = Seconds(taken.fabric_s)
        parts.append(
            plural(
                "{count} step over the fabric x {each}",
                "{count} steps over the fabric x {each}",
                fabric,
                each=each,
            )
        )
    return joined(parts, " + ")


def _sent_note(case: CollectiveCase) -> Text:
    n, amount = case.ranks, Bytes(case.size_bytes)
    if case.taken.algorithm == "tree":
        return verbatim(f"2 x {amount}")
    if case.taken.algorithm in ("nvls", "nvls_tree"):
        return verbatim(f"(1 + 1 / {case.group.local}) x {amount}")
    if case.taken.algorithm in ("collnet", "hierarchical"):
        return verbatim(Bytes(case.taken.sent_bytes))
    if case.operation == "broadcast":
        return verbatim(amount)
    times = "2 x " if case.operation == "all_reduce" else ""
    return verbatim(f"{times}({n} - 1) / {n} x {amount}")


def choice(case: CollectiveCase) -> Section:
    """All ways with their two parts, and what is taken at other sizes."""
    found = case.ways()
    bars = Bars(
        Text("Every way to run it; the first is taken"),
        "s",
        tuple(Bar(_way_name(way), _parts(way)) for way in found),
    )
    table = Table(
        Text("The same in figures"),
        (
            Column(Text("algorithm")),
            Column(Text("protocol")),
            Column(Text("steps"), "count"),
            Column(Text("latency"), "s"),
            Column(Text("moving"), "s"),
            Column(Text("time"), "s"),
            Column(Text("rate while moving"), "bytes/s"),
        ),
        tuple(
            (
                ALGORITHMS[w.algorithm],
                w.protocol.name,
                w.steps,
                w.latency_s,
                w.moving_s,
                w.time_s,
                w.bytes_per_s,
            )
            for w in found
        ),
        (0,),
        Text("DMA: engines move nothing but data.")
        if not case.group.nccl
        else Text(
            "LL sends a flag with every 4 bytes: soonest, at half the rate. LL128 sends 120 of 128 "
            "bytes as data. Simple sends nothing but data, and waits at every step."
        ),
    )
    return Section(Text("Algorithm and protocol"), (bars, table, ways_by_size(case)))


def _way_name(way: Way) -> Text:
    name = ALGORITHMS[way.algorithm]
    return Text("{name}, {protocol}", name=name, protocol=way.protocol.name)


def _parts(way: Way) -> tuple[Part, ...]:
    return (
        Part(Text("latency"), way.latency_s, "launch"),
        Part(Text("moving bytes"), way.moving_s, "communication"),
    )
