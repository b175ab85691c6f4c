"""The figures of a collective: its two parts, every way to run it, the way at each size."""

from __future__ import annotations

from math import inf

from gpuscope.cost.collective_ways import Way
from gpuscope.explain.collective_case import Case
from gpuscope.explain.collective_curves import ALGORITHMS, even_bytes, ways_by_size
from gpuscope.explain.equal_work import ITEM_BYTES
from gpuscope.explain.numbers import count, rate, seconds, size, three
from gpuscope.explain.types import (
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
    Words,
)

_DOES = {
    "all_reduce": Words(
        "Every rank has a tensor of this size; afterwards each has the sum of all.",
        "每个 rank 各有一个这么大的张量；结束后每个 rank 都得到所有张量之和。"),
    "all_gather": Words(
        "Every rank has one part; afterwards each has all parts, together of this size.",
        "每个 rank 各有一块；结束后每个 rank 都有全部块，合起来是这个大小。"),
    "reduce_scatter": Words(
        "Every rank has a tensor of this size; afterwards each has its own part of the sum.",
        "每个 rank 各有一个这么大的张量；结束后每个 rank 得到总和中属于自己的一块。"),
    "all_to_all": Words(
        "Every rank holds this much and sends another part of it to each of the others.",
        "每个 rank 持有这么多数据，把不同的部分发给其余每个 rank。"),
    "broadcast": Words(
        "One rank has a tensor of this size; afterwards all have it.",
        "一个 rank 有一个这么大的张量；结束后所有 rank 都有。"),
}  # fmt: skip


def cost(case: Case) -> Section:
    """Time, both of its parts, bytes, bandwidths, and the links they are held against."""
    taken = case.taken
    low, high = case.interval_s
    device = case.device
    items = f"{count(case.elements)} x {ITEM_BYTES[case.dtype]} B"
    moving = f"{size(taken.sent_bytes)} / {rate(taken.bytes_per_s, 'B/s')}"
    rows = [
        Fact(Words("time", "时间"), taken.time_s, "s", case.origin, low, high),
        Fact(Words("latency part (alpha)", "延迟部分（alpha）"), taken.latency_s, "s", case.origin,
             note=_steps_note(case)),
        Fact(Words("bandwidth part (beta)", "带宽部分（beta）"), taken.moving_s, "s", case.origin,
             note=Words(moving, moving)),
        Fact(Words("message", "消息"), float(case.size_bytes), "bytes", note=Words(items, items)),
        Fact(Words("each rank sends", "每个 rank 发送"), taken.sent_bytes, "bytes", "computed",
             note=_sent_note(case)),
        Fact(Words("algorithm bandwidth", "算法带宽"), case.size_bytes / taken.time_s, "bytes/s",
             "computed", note=Words("message / time", "消息 / 时间")),
        Fact(Words("bus bandwidth", "总线带宽"),
             case.bus_bytes_per_s(case.size_bytes, taken.time_s), "bytes/s", "computed",
             note=Words(f"algorithm bandwidth x {three(case.bus_factor)}, as nccl-tests count",
                        f"算法带宽 x {three(case.bus_factor)}，按 nccl-tests 的定义")),
        Fact(Words("message where both parts are equal", "两部分相等的消息"), even_bytes(case),
             "bytes", "computed", note=Words("alpha x size / beta", "alpha x 大小 / beta")),
    ]  # fmt: skip
    if case.link is not None and case.group.link_bytes_per_s < inf:
        rows.append(
            Fact(Words("a rank's link, one way", "每个 rank 的链路（单向）"),
                 case.group.link_bytes_per_s, "bytes/s", case.link.bandwidth_origin,
                 note=Words(case.link.name, case.link.name))
        )  # fmt: skip
    fabric = case.cluster.scale_out
    if case.group.domains > 1 and fabric is not None:
        rows.append(
            Fact(Words("a rank's share of the fabric", "每个 rank 的节点间带宽"),
                 case.group.fabric_bytes_per_s, "bytes/s", fabric.bandwidth_origin,
                 note=Words(fabric.name, fabric.name))
        )  # fmt: skip
    blocks: list[Block] = [Paragraph(_DOES[case.operation]), Facts(tuple(rows))]
    bus = case.bus_bytes_per_s(case.size_bytes, taken.time_s)
    if taken.algorithm == "nvls" or (
        case.operation == "all_reduce" and bus > case.roof_bytes_per_s
    ):
        blocks.append(
            Paragraph(
                Words(
                    "The switches add (NVLS): each rank sends its data once, not twice, so the bus "
                    "bandwidth, which counts a ring's bytes, may exceed the link's rate.",
                    "交换机参与求和（NVLS）：每个 rank 只发一遍数据，而总线带宽按环算法的字节计，"
                    "因此可能超过链路速率。",
                ), "doubt",
            )
        )  # fmt: skip
    title = Words(f"What it costs on {device.name}", f"在 {device.name} 上的代价")
    return Section(title, tuple(blocks))


def _steps_note(case: Case) -> Words:
    taken = case.taken
    begin = f"{seconds(taken.base_s)}"
    inside = taken.steps - taken.fabric_steps
    text, zh = f"{begin} to begin", f"启动 {begin}"
    if inside:
        each = seconds(taken.link_s)
        text += f" + {inside} step{'s' * (inside > 1)} x {each}"
        zh += f" + {inside} 步 x {each}"
    if taken.fabric_steps:
        each = seconds(taken.fabric_s)
        plural = "s" * (taken.fabric_steps > 1)
        text += f" + {taken.fabric_steps} step{plural} over the fabric x {each}"
        zh += f" + 节点间 {taken.fabric_steps} 步 x {each}"
    return Words(text, zh)


def _sent_note(case: Case) -> Words:
    n, amount = case.ranks, size(case.size_bytes)
    if case.taken.algorithm == "tree":
        return Words(f"2 x {amount}", f"2 x {amount}")
    if case.taken.algorithm in ("nvls", "nvls_tree"):
        text = f"(1 + 1 / {case.group.local}) x {amount}"
        return Words(text, text)
    if case.taken.algorithm in ("collnet", "hierarchical"):
        text = size(case.taken.sent_bytes)
        return Words(text, text)
    text = {
        "all_reduce": f"2 x ({n} - 1) / {n} x {amount}", "broadcast": amount,
    }.get(case.operation, f"({n} - 1) / {n} x {amount}")  # fmt: skip
    return Words(text, text)


def choice(case: Case) -> Section:
    """All ways with their two parts, and what is taken at other sizes."""
    found = case.ways()
    bars = Bars(
        Words("Every way to run it; the first is taken", "所有方式；取第一种"), "s",
        tuple(Bar(_way_name(way), _parts(way)) for way in found),
    )  # fmt: skip
    table = Table(
        Words("The same in figures", "数值"),
        (
            Column(Words("algorithm", "算法")), Column(Words("protocol", "协议")),
            Column(Words("steps", "步数"), "count"), Column(Words("latency", "延迟"), "s"),
            Column(Words("moving", "搬运"), "s"), Column(Words("time", "时间"), "s"),
            Column(Words("rate while moving", "搬运速率"), "bytes/s"),
        ),
        tuple(
            (ALGORITHMS[w.algorithm], w.protocol.name, w.steps, w.latency_s, w.moving_s, w.time_s,
             w.bytes_per_s)
            for w in found
        ),
        (0,),
        Words(
            "LL sends a flag with every 4 bytes: soonest, at half the rate. LL128 sends 120 of 128 "
            "bytes as data. Simple sends nothing but data, and waits at every step.",
            "LL 每 4 字节带一个标志：最快开始，速率减半。LL128 每 128 字节中有 120 字节是数据。"
            "Simple 全是数据，但每步都要同步。",
        ),
    )  # fmt: skip
    return Section(Words("Algorithm and protocol", "算法与协议"), (bars, table, ways_by_size(case)))


def _way_name(way: Way) -> Words:
    name = ALGORITHMS[way.algorithm]
    return Words(f"{name.en}, {way.protocol.name}", f"{name.zh}，{way.protocol.name}")


def _parts(way: Way) -> tuple[Part, ...]:
    return (
        Part(Words("latency", "延迟"), way.latency_s, "launch"),
        Part(Words("moving bytes", "搬运数据"), way.moving_s, "communication"),
    )
