"""`explain collective`: one collective on one cluster, from algorithm to what hides it.

A collective takes alpha + beta: a latency that does not depend on the size (to begin, and one for
each step), and bytes over the rate of the narrowest link. Which algorithm and protocol are taken,
and both parts, are those of `gpuscope.cost.collective_ways`.
"""

from __future__ import annotations

from gpuscope.api import Target
from gpuscope.explain.collective_case import Case, make_case
from gpuscope.explain.collective_curves import (
    ALGORITHMS,
    bandwidth_over_size,
    even_bytes,
    explorer,
    time_over_ranks,
    time_over_size,
)
from gpuscope.explain.collective_figures import choice, cost
from gpuscope.explain.collective_hiding import Cover, cover_of, hiding, narrower
from gpuscope.explain.collective_steps import steps_diagram
from gpuscope.explain.numbers import count, percent, rate, seconds, size
from gpuscope.explain.registry import topic
from gpuscope.explain.types import Block, Explanation, Section, Words

_MATTERS = 0.15
"""Share of the time from which the smaller part is worth a word."""

_SOURCES = (
    "Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in "
    "MPICH, 2005: bytes and steps of each algorithm.",
    "NCCL, src/graph/tuning.cc: latencies and bandwidth shares of LL, LL128 and Simple.",
    "nccl-tests, doc/PERFORMANCE.md: algorithm bandwidth and bus bandwidth.",
)


@topic("collective")
def collective(
    operation: str, amount: str | float, *, on: Target = "8xh200", dtype: str = "bf16"
) -> Explanation:  # fmt: skip
    """Explain a collective.

    Args:
        operation: "all_reduce", "all_gather", "reduce_scatter", "all_to_all" or "broadcast".
        amount: the whole message: "64MB", or bytes.
        on: a cluster; every device is a rank.
        dtype: of its elements.

    Raises:
        UnknownNameError: no such collective, device or dtype.
        InvalidValueError: no bytes, one rank, or more than a device holds.
        UnsupportedError: links of unknown rate, or a dtype that no collective moves.
    """
    case = make_case(operation, amount, on, dtype)
    cover = cover_of(case)
    return Explanation(
        "collective", _title(case, amount), _summary(case, cover),
        (
            cost(case),
            choice(case),
            Section(Words("The steps on the links", "链路上的步骤"), (steps_diagram(case),)),
            _curves(case),
            hiding(case, cover),
            narrower(case),
            Section(Words("Move it yourself", "自己动手"), (explorer(case),)),
        ),
        _commands(case), (*_SOURCES, *_measured(case)), _assumptions(case),
    )  # fmt: skip


def _title(case: Case, given: str | float) -> Words:
    typed = isinstance(given, str) and not given.strip()[-1:].isdigit()
    amount = str(given).strip() if typed else size(case.size_bytes)
    name = case.device.name
    return Words(
        f"{case.operation} of {amount} ({case.dtype}) among {case.ranks} x {name}",
        f"{case.ranks} 张 {name} 之间 {amount}（{case.dtype}）的 {case.operation}",
    )


def _summary(case: Case, cover: Cover) -> tuple[Words, ...]:
    taken = case.taken
    low, high = (seconds(end) for end in case.interval_s)
    way = ALGORITHMS[taken.algorithm]
    name = taken.protocol.name
    parts = [
        Words(
            f"It takes {seconds(taken.time_s)} (80 % sure: {low} to {high}); {_chooser(case).en} "
            f"is {_a(way.en)} with the {name} protocol.",
            f"耗时 {seconds(taken.time_s)}（80 % 把握：{low} 至 {high}）；"
            f"{_chooser(case).zh}是{way.zh}算法与 {name} 协议。",
        ),
        _which_part(case),
        _against_link(case),
    ]
    if cover.product is not None:
        side = count(cover.product.side)
        parts.append(
            Words(
                f"It hides under arithmetic that lasts as long: one {case.dtype} product of "
                f"{side} x {side} x {side} does.",
                "同样长的计算可以掩盖它："
                f"例如一次 {side} x {side} x {side} 的 {case.dtype} 矩阵乘。",
            )
        )
    return tuple(parts)


def _a(name: str) -> str:
    return name if name == "pairs" or name[0].isupper() else f"a {name}"


def _chooser(case: Case) -> Words:
    if case.device.vendor == "NVIDIA":
        return Words("NCCL's choice", "NCCL 的选择")
    return Words("the fastest way", "最快的方式")


def _which_part(case: Case) -> Words:
    taken = case.taken
    share = taken.latency_s / taken.time_s
    if share > 0.5:
        return Words(
            f"{percent(share)} of it is latency, which would be the same for fewer bytes: send "
            f"fewer and larger messages (from {size(even_bytes(case))} on, bytes take longer).",
            f"其中 {percent(share)} 是延迟，数据再少也一样：应减少次数、增大每次的消息"
            f"（超过 {size(even_bytes(case))} 后字节传输才占多数）。",
        )
    sent = size(taken.sent_bytes)
    if share > _MATTERS:
        return Words(
            f"{percent(1 - share)} of it is moving bytes ({sent} a rank) and {percent(share)} "
            "latency: both larger messages and fewer bytes would help.",
            f"其中 {percent(1 - share)} 在搬运数据（每个 rank {sent}），{percent(share)} 是延迟："
            "增大每次的消息、减少字节数都有用。",
        )
    return Words(
        f"{percent(1 - share)} of it is moving bytes: each rank sends {sent}. Fewer bytes (a "
        "narrower dtype) or a faster link would help, a lower latency hardly.",
        f"其中 {percent(1 - share)} 在搬运数据：每个 rank 发送 {sent}。减少字节数（更窄的数据类型）"
        "或更快的链路才有用，降低延迟几乎没用。",
    )


def _against_link(case: Case) -> Words:
    bus = case.bus_bytes_per_s(case.size_bytes, case.taken.time_s)
    roof = case.roof_bytes_per_s
    where = _narrow_name(case)
    shared = _between_nodes(case) and case.operation != "all_to_all" and case.group.local > 1
    whom = Words("a node", "节点") if shared else Words("a rank", " rank")
    return Words(
        f"Bus bandwidth is {rate(bus, 'B/s')}, {percent(bus / roof)} of the {rate(roof, 'B/s')} "
        f"that {where.en} gives {whom.en} one way.",
        f"总线带宽 {rate(bus, 'B/s')}，为{where.zh}单向给每个{whom.zh} 的 {rate(roof, 'B/s')} 的 "
        f"{percent(bus / roof)}。",
    )


def _between_nodes(case: Case) -> bool:
    """Whether the way between the nodes is the narrowest."""
    fabric = case.cluster.scale_out
    return fabric is not None and case.roof_bytes_per_s < case.group.link_bytes_per_s


def _narrow_name(case: Case) -> Words:
    """The name of the links that set the pace."""
    fabric = case.cluster.scale_out
    if fabric is not None and _between_nodes(case):
        return Words(f"{fabric.name} between the nodes", f"节点间的 {fabric.name} ")
    name = case.link.name if case.link is not None else "the link"
    return Words(name, f" {name} ")


def _curves(case: Case) -> Section:
    blocks: list[Block] = [time_over_size(case), bandwidth_over_size(case)]
    over_ranks = time_over_ranks(case)
    if over_ranks is not None:
        blocks.append(over_ranks)
    return Section(Words("Size and ranks", "大小与 rank 数"), tuple(blocks))


def _commands(case: Case) -> tuple[str, ...]:
    where = f"{case.ranks}x{case.device.id}"
    if case.cluster.nodes > 1:
        where = f"{case.cluster.nodes}x{case.cluster.devices_per_node}x{case.device.id}"
    other = "all_gather" if case.operation != "all_gather" else "reduce_scatter"
    return (
        f"gpuscope explain collective {other} {case.size_bytes}B --on {where}",
        f"gpuscope predict gpt2 --task train --on {where}",
        "gpuscope bench --only collectives --save",
    )


def _measured(case: Case) -> tuple[str, ...]:
    if case.origin != "calibrated":
        return ()
    known = case.constants.calibration.measured_with.split("; ")
    return tuple(f"Constants: {text}." for text in known if "NCCL" in text or "collective" in text)


def _assumptions(case: Case) -> tuple[Words, ...]:
    group = case.group
    said = [
        Words(
            "All ranks begin at once; waiting for a late one would come on top.",
            "所有 rank 同时开始；等待迟到者的时间另计。",
        ),
        Words("Nothing else uses the links.", "链路上没有其他流量。"),
    ]
    if group.domains > 1:
        said.append(
            Words(
                f"{case.cluster.nodes} nodes of {case.cluster.devices_per_node}; the ranks fill "
                f"{group.domains} scale-up domains of {group.local} one after the other, and the "
                "fabric does not block.",
                f"{case.cluster.nodes} 个节点，每个 {case.cluster.devices_per_node} 卡；"
                f"rank 依次填满 {group.domains} 个 {group.local} 卡互联域，节点间网络无阻塞。",
            )
        )
    if case.device.vendor != "NVIDIA":
        said.append(
            Words(
                "The library is taken to behave as NCCL does; it was not measured on this device.",
                "假定通信库的行为与 NCCL 相同；其延迟未在此设备上测量。",
            )
        )
    if case.origin == "estimated" and case.measured_ranks and group.domains == 1:
        said.append(
            Words(
                f"Measured with up to {case.measured_ranks} ranks; what a link reaches is taken to "
                f"be the same with {case.ranks}.",
                f"实测最多 {case.measured_ranks} 个 rank；假定 {case.ranks} 个时链路利用率相同。",
            )
        )
    elif case.origin == "estimated":
        said.append(
            Words(
                "Latencies are those of NCCL's tuner; large messages are taken to reach 80 % of "
                "the narrowest link.",
                "延迟取自 NCCL 的调优表；假定大消息达到最窄链路的 80 %。",
            )
        )
    return tuple(said)
