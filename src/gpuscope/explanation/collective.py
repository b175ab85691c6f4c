"""`explain collective`: one collective on one cluster, from algorithm to what hides it.

A collective takes alpha + beta: a latency that does not depend on the size (to begin, and one for
each step), and bytes over the rate of the narrowest link. Which algorithm and protocol are taken,
and both parts, are those of `gpuscope.cost.collective.ways`.
"""

from __future__ import annotations

from gpuscope.api import Target
from gpuscope.document.blocks import Block, Explanation, Section
from gpuscope.document.quantities import ByteRate, Bytes, Count, Percent, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.collective_case import CollectiveCase, make_case
from gpuscope.explanation.collective_curves import (
    ALGORITHMS,
    bandwidth_over_size,
    even_bytes,
    explorer,
    time_over_ranks,
    time_over_size,
)
from gpuscope.explanation.collective_figures import choice, cost
from gpuscope.explanation.collective_hiding import Cover, cover_of, hiding, narrower
from gpuscope.explanation.collective_steps import steps_diagram
from gpuscope.explanation.registry import topic

_MATTERS = 0.15
"""Share of the time from which the smaller part is worth a word."""

_SOURCES = (
    "Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in "
    "MPICH, 2005: bytes and steps of each algorithm.",
    "nccl-tests, doc/PERFORMANCE.md: algorithm bandwidth and bus bandwidth.",
)

_NCCL_SOURCE = "NCCL, src/graph/tuning.cc: latencies and bandwidth shares of LL, LL128 and Simple."


@topic("collective")
def collective(
    operation: str, amount: str | float, *, on: Target = "8xh200", dtype: str = "bf16"
) -> Explanation:
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
        "collective",
        _title(case, amount),
        _summary(case, cover),
        (
            cost(case),
            choice(case),
            Section(Text("The steps on the links"), (steps_diagram(case),)),
            _curves(case),
            hiding(case, cover),
            narrower(case),
            Section(Text("Move it yourself"), (explorer(case),)),
        ),
        _commands(case),
        (*_SOURCES, *((_NCCL_SOURCE,) if case.group.nccl else ()), *_measured(case)),
        _assumptions(case),
    )


def _title(case: CollectiveCase, given: str | float) -> Text:
    typed = isinstance(given, str) and not given.strip()[-1:].isdigit()
    amount = verbatim(str(given).strip() if typed else Bytes(case.size_bytes))
    name = case.device.name
    return Text(
        "{operation} of {amount} ({dtype}) among {ranks} x {name}",
        operation=case.operation,
        amount=amount,
        dtype=case.dtype,
        ranks=case.ranks,
        name=name,
    )


def _summary(case: CollectiveCase, cover: Cover) -> tuple[Text, ...]:
    taken = case.taken
    low, high = (Seconds(end) for end in case.interval_s)
    way = ALGORITHMS[taken.algorithm]
    named = taken.algorithm == "pairs" or way[0].isupper()
    parts = [
        Text(
            "It takes {time} (80 % sure: {low} to {high}); {chooser} is {way} with the {name} "
            "protocol.",
            time=Seconds(taken.time_s),
            low=low,
            high=high,
            chooser=_chooser(case),
            way=way if named else Text("a {way}", way=way),
            name=taken.protocol.name,
        ),
        _which_part(case),
        _against_link(case),
    ]
    if cover.product is not None:
        side = Count(cover.product.side)
        parts.append(
            Text(
                "It hides under arithmetic that lasts as long: one {dtype} product of {side} x "
                "{side} x {side} does.",
                dtype=case.dtype,
                side=side,
            )
        )
    return tuple(parts)


def _chooser(case: CollectiveCase) -> Text:
    if case.device.vendor == "NVIDIA":
        return Text("NCCL's choice")
    return Text("the fastest way")


def _which_part(case: CollectiveCase) -> Text:
    taken = case.taken
    share = taken.latency_s / taken.time_s
    if share > 0.5:
        return Text(
            "{share} of it is latency, which would be the same for fewer bytes: send fewer and "
            "larger messages (from {even} on, bytes take longer).",
            share=Percent(share),
            even=Bytes(even_bytes(case)),
        )
    sent = Bytes(taken.sent_bytes)
    if share > _MATTERS:
        return Text(
            "{moving} of it is moving bytes ({sent} a rank) and {latency} latency: both larger "
            "messages and fewer bytes would help.",
            moving=Percent(1 - share),
            sent=sent,
            latency=Percent(share),
        )
    return Text(
        "{moving} of it is moving bytes: each rank sends {sent}. Fewer bytes (a narrower dtype) or "
        "a faster link would help, a lower latency hardly.",
        moving=Percent(1 - share),
        sent=sent,
    )


def _against_link(case: CollectiveCase) -> Text:
    bus = case.bus_bytes_per_s(case.size_bytes, case.taken.time_s)
    roof = case.roof_bytes_per_s
    where = _narrow_name(case)
    shared = _between_nodes(case) and case.operation != "all_to_all" and case.group.local > 1
    whom = Text("a node") if shared else Text("a rank")
    return Text(
        "Bus bandwidth is {bus}, {share} of the {roof} that {where} gives {whom} one way.",
        bus=ByteRate(bus),
        share=Percent(bus / roof),
        roof=ByteRate(roof),
        where=where,
        whom=whom,
    )


def _between_nodes(case: CollectiveCase) -> bool:
    """Whether the way between the nodes is the narrowest."""
    fabric = case.cluster.scale_out
    return fabric is not None and case.roof_bytes_per_s < case.group.link_bytes_per_s


def _narrow_name(case: CollectiveCase) -> Text:
    """The name of the links that set the pace."""
    fabric = case.cluster.scale_out
    if fabric is not None and _between_nodes(case):
        return Text("{fabric} between the nodes", fabric=fabric.name)
    return verbatim(case.link.name) if case.link is not None else Text("the link")


def _curves(case: CollectiveCase) -> Section:
    blocks: list[Block] = [time_over_size(case), bandwidth_over_size(case)]
    over_ranks = time_over_ranks(case)
    if over_ranks is not None:
        blocks.append(over_ranks)
    return Section(Text("Size and ranks"), tuple(blocks))


def _commands(case: CollectiveCase) -> tuple[str, ...]:
    where = f"{case.ranks}x{case.device.id}"
    if case.cluster.nodes > 1:
        where = f"{case.cluster.nodes}x{case.cluster.devices_per_node}x{case.device.id}"
    other = "all_gather" if case.operation != "all_gather" else "reduce_scatter"
    return (
        f"gpuscope explain collective {other} {case.size_bytes}B --on {where}",
        f"gpuscope predict gpt2 --task train --on {where}",
        "gpuscope bench --only collectives --save",
    )


def _measured(case: CollectiveCase) -> tuple[str, ...]:
    if case.origin != "calibrated":
        return ()
    known = case.constants.calibration.measured_with.split("; ")
    return tuple(
        Text("Constants: {measured}.", measured=text)
        for text in known
        if "NCCL" in text or "collective" in text
    )


def _assumptions(case: CollectiveCase) -> tuple[Text, ...]:
    group = case.group
    said = [
        Text("All ranks begin at once; waiting for a late one would come on top."),
        Text("Nothing else uses the links."),
    ]
    if group.domains > 1:
        said.append(
            Text(
                "{nodes} nodes of {devices_per_node}; the ranks fill {domains} scale-up domains of "
                "{local} one after the other, and the fabric does not block.",
                nodes=case.cluster.nodes,
                devices_per_node=case.cluster.devices_per_node,
                domains=group.domains,
                local=group.local,
            )
        )
    if case.device.vendor != "NVIDIA":
        said.append(
            Text("The library is taken to behave as NCCL does; it was not measured on this device.")
        )
    if case.origin == "estimated" and case.measured_ranks and group.domains == 1:
        said.append(
            Text(
                "Measured with up to {measured_ranks} ranks; what a link reaches is taken to be "
                "the same with {ranks}.",
                measured_ranks=case.measured_ranks,
                ranks=case.ranks,
            )
        )
    elif case.origin == "estimated":
        said.append(
            Text(
                "Latencies are those of NCCL's tuner; large messages are taken to reach 80 % of "
                "the narrowest link."
            )
        )
    return tuple(said)
