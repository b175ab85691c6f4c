"""`explain transfer`: a copy between host and device, pageable, pinned, and under arithmetic."""

from __future__ import annotations

from gpuscope.api import Target
from gpuscope.document.blocks import (
    Block,
    Diagram,
    Explanation,
    Fact,
    Facts,
    Link,
    Node,
    Paragraph,
    Section,
)
from gpuscope.document.quantities import ByteRate, Bytes, Count, Number, Percent, Rate, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.equal_work import ITEM_BYTES, Square, square_product
from gpuscope.explanation.registry import topic
from gpuscope.explanation.transfer_case import DIRECTIONS, TransferCase, make_case
from gpuscope.explanation.transfer_curves import (
    PAGEABLE,
    PINNED,
    break_even,
    explorer,
    in_pieces,
    rate_over_size,
)
from gpuscope.explanation.transfer_overlap import best_chunks, chunk_table, how_to, side_by_side
from gpuscope.hardware import rate_name

_LARGE = 8192

_SOURCES = (
    "NVIDIA, CUDA C++ Best Practices Guide, Data Transfer Between Host and Device: pinned memory, "
    "asynchronous and overlapping transfers.",
    "PyTorch, A guide on good usage of non_blocking and pin_memory().",
)


@topic("transfer")
def transfer(
    amount: str | float,
    *,
    on: Target = "h200",
    pinned: bool | None = None,
    direction: str = "h2d",
    dtype: str = "bf16",
) -> Explanation:
    """Explain a copy between host and device.

    Args:
        amount: "1GB", or bytes.
        on: a device; of a cluster, one of its devices.
        pinned: from page-locked memory or not; None explains both alike.
        direction: "h2d" or "d2h".
        dtype: of the arithmetic that a copy is held against.

    Raises:
        UnknownNameError: no such device, direction or dtype.
        InvalidValueError: no bytes, or more than the device holds.
        UnsupportedError: the device shares the host's memory.
    """
    case = make_case(amount, on, direction)
    name = rate_name(dtype)
    large = square_product(case.device, case.constants, name, _LARGE)
    compute_s = case.time_s(True)
    overlap: list[Block] = [side_by_side(case, compute_s)]
    if best_chunks(case, compute_s) > 1:
        overlap.append(chunk_table(case, compute_s))
    overlap.append(how_to())
    pieces = in_pieces(case)
    sizes: list[Block] = [rate_over_size(case)]
    if pieces is not None:
        sizes.append(pieces)
    return Explanation(
        "transfer",
        _title(case, amount),
        _summary(case, pinned, large, name),
        (
            Section(Text("How long"), (_times(case),)),
            Section(Text("The way of the bytes"), (_path(case), *_advice(case, pinned))),
            Section(Text("Size matters"), tuple(sizes)),
            Section(Text("Under arithmetic"), tuple(overlap)),
            _worth(case, large, name),
            Section(Text("Move it yourself"), (explorer(case),)),
        ),
        _commands(case),
        _sources(case),
        _assumptions(case),
    )


def _title(case: TransferCase, given: str | float) -> Text:
    typed = isinstance(given, str) and not given.strip()[-1:].isdigit()
    amount = str(given).strip() if typed else Bytes(case.size_bytes)
    way, name = DIRECTIONS[case.way], case.device.name
    return Text("Copy {amount} from {way}: {name}", amount=amount, way=way, name=name)


def _summary(
    case: TransferCase, pinned: bool | None, large: Square | None, dtype: str
) -> tuple[Text, ...]:
    fast, slow = case.time_s(True), case.time_s(False)
    both = Text(
        "From pinned memory it takes {fast} ({fast_rate}), from pageable memory {slow} "
        "({slow_rate}): {times} times as long.",
        fast=Seconds(fast),
        fast_rate=ByteRate(case.rate(True)),
        slow=Seconds(slow),
        slow_rate=ByteRate(case.rate(False)),
        times=Number(slow / fast),
    )
    if abs(slow / fast - 1) < 0.01:
        both = Text(
            "Pinned or pageable makes no difference to so small a copy: {fast}, {rate}.",
            fast=Seconds(fast),
            rate=ByteRate(case.rate(True)),
        )
    said = [both]
    if pinned is not None:
        kernel = case.copy(pinned)
        kind = PINNED if pinned else PAGEABLE
        span = Text("{low} to {high}", low=Seconds(kernel.low_s), high=Seconds(kernel.high_s))
        said.insert(
            0,
            Text(
                "From {kind} memory it takes {duration} (80 % sure: {span}).",
                kind=kind,
                duration=Seconds(kernel.duration_s),
                span=span,
            ),
        )
    if case.copy(True).limiter == "latency":
        said.append(
            Text(
                "Nearly all of it is latency: below {even} fewer bytes are hardly sooner there. "
                "Join small tensors into one copy.",
                even=Bytes(case.even_bytes()),
            )
        )
    else:
        hbm = case.device.memory_bandwidth_bytes_per_s
        said.append(
            Text(
                "{link_name} is the narrow place: the device's own memory is {hbm} times as fast.",
                link_name=case.link_name,
                hbm=Number(hbm / case.rate(True)),
            )
        )
    if large is not None and case.copy(True).limiter != "latency":
        flops = large.flops / large.time_s * fast
        said.append(
            Text(
                "Meanwhile the device could do {flops} of {dtype} products: copying pays if each "
                "byte is used for {flops_2} FLOP or more, or if it is hidden under other work.",
                flops=Rate(flops, "FLOP"),
                dtype=dtype,
                flops_2=Count(flops / case.size_bytes),
            )
        )
    return tuple(said)


def _times(case: TransferCase) -> Facts:
    rows = []
    for pinned, kind in ((True, PINNED), (False, PAGEABLE)):
        kernel = case.copy(pinned)
        rows += [
            Fact(
                Text("{kind}: time", kind=kind),
                kernel.duration_s,
                "s",
                case.origin,
                kernel.low_s,
                kernel.high_s,
            ),
            Fact(
                Text("{kind}: rate", kind=kind),
                case.rate(pinned),
                "bytes/s",
                "computed",
                note=_of_link(case, pinned),
            ),
        ]
    rows += [
        Fact(
            Text("half the rate is reached at"),
            case.even_bytes(),
            "bytes",
            "computed",
            note=Text("pinned: where latency = bytes / rate"),
        ),
        Fact(
            Text("{link_name}, one way", link_name=case.link_name),
            case.link_bytes_per_s,
            "bytes/s",
            _link_origin(case),
        ),
        Fact(
            Text("device memory"),
            case.device.memory_bandwidth_bytes_per_s,
            "bytes/s",
            case.device.origin("memory_bandwidth_bytes_per_s") or "",
            note=_read_again(case),
        ),
    ]
    return Facts(tuple(rows))


def _of_link(case: TransferCase, pinned: bool) -> Text:
    share = Percent(case.rate(pinned) / case.link_bytes_per_s)
    return Text("{share} of the link", share=share)


def _link_origin(case: TransferCase) -> str:
    link = case.device.host_link
    return link.bandwidth_origin if link is not None and case.link_is_known else "estimated"


def _read_again(case: TransferCase) -> Text:
    again = Seconds(case.size_bytes / case.device.memory_bandwidth_bytes_per_s)
    return Text("the same bytes once: {again}", again=again)


def _path(case: TransferCase) -> Diagram:
    """The places on the way, in the direction of the copy; one step for each kind of memory."""
    staged = case.copy(False).note != ""
    memory = case.device.memory_type or Text("memory")
    bus = case.link_name.partition(" (")[0]
    nodes = [
        Node("pageable", Text("host memory (pageable)"), "host memory", 0.1, 0.25, 0.17, 0.2),
        Node("pinned", Text("host memory (pinned)"), "host memory", 0.1, 0.75, 0.17, 0.2),
        Node("bus", verbatim(bus), "switch", 0.64, 0.5, 0.14, 0.2),
        Node("device", Text("device {memory}", memory=memory), "memory", 0.92, 0.5, 0.14, 0.2),
    ]
    if staged:
        said = Text("staging (pinned)")
        nodes.insert(1, Node("staging", said, "host memory", 0.39, 0.25, 0.14, 0.2))
    note = None
    if staged:
        whole = Text("measured") if case.origin == "calibrated" else Text("estimated")
        note = Text(
            "How fast the CPU alone could copy is not known; the whole chain's rate is {whole}.",
            whole=whole,
        )
    return Diagram(
        Text("From where to where, and how fast"),
        tuple(nodes),
        (*_ways(case, False, staged), *_ways(case, True, False)),
        (Text("pageable memory"), Text("pinned memory")),
        note,
    )


def _ways(case: TransferCase, pinned: bool, staged: bool) -> tuple[Link, ...]:
    """The ways of one kind of memory, turned round where the copy goes to the host."""
    down = case.way == "d2h"
    reads, writes = Text("DMA read"), Text("DMA write")
    narrow = not staged and case.copy(pinned).limiter != "latency"
    source = "pinned" if pinned else "pageable"
    ways: list[tuple[str, str, Text, float | None, bool]] = []
    if staged:
        ways.append((source, "staging", Text("CPU copy"), None, True))
        source = "staging"
    ways += [
        (source, "bus", writes if down else reads, case.link_bytes_per_s, narrow),
        (
            "bus",
            "device",
            reads if down else writes,
            case.device.memory_bandwidth_bytes_per_s,
            False,
        ),
    ]
    rate = case.rate(pinned)
    turned = [(b, a, *rest) for a, b, *rest in reversed(ways)] if down else ways
    return tuple(
        Link(a, b, label, rate, limit, narrowest, step=int(pinned))  # type: ignore[arg-type]
        for a, b, label, limit, narrowest in turned
    )


def _advice(case: TransferCase, pinned: bool | None) -> tuple[Paragraph, ...]:
    said = []
    if pinned is not True and case.copy(False).note:
        said.append(
            Paragraph(
                Text(
                    "A pageable copy makes the host wait, whatever non_blocking says: its pages "
                    "may be moved, so the driver must first copy them to where they cannot."
                ),
                "key",
            )
        )
    said.append(
        Paragraph(
            Text(
                "Pinning takes time itself, and pinned pages are lost to the rest of the system: "
                "pin once and reuse. That time is not counted here."
            ),
            "doubt",
        )
    )
    return tuple(said)


def _worth(case: TransferCase, large: Square | None, dtype: str) -> Section:
    """When copying costs more than computing."""
    title = Text("When copying costs more than computing")
    table = break_even(case, dtype) if dtype in ITEM_BYTES else None
    if table is None or large is None:
        text = Text(
            "{device} has no stated {dtype} rate, so no product is compared.",
            device=case.device.name,
            dtype=dtype,
        )
        return Section(title, (Paragraph(text, "doubt"),))
    needed = large.flops / large.time_s / case.rate(True)
    own = large.flops / large.time_s / case.device.memory_bandwidth_bytes_per_s
    rows = (
        Fact(
            Text("arithmetic per byte that balances the link"),
            needed,
            "flop/byte",
            "computed",
            note=Text("what large products reach / rate of the copy"),
        ),
        Fact(
            Text("that balances device memory"),
            own,
            "flop/byte",
            "computed",
            note=Text("the same over the memory's rate"),
        ),
    )
    text = Text(
        "An addition or an activation does a few FLOP a byte: copying data up for it alone never "
        "pays. Data should come once and stay."
    )
    return Section(title, (Facts(rows), table, Paragraph(text)))


def _commands(case: TransferCase) -> tuple[str, ...]:
    other = "d2h" if case.way == "h2d" else "h2d"
    return (
        f"gpuscope explain transfer {case.size_bytes}B --on {case.device.id} --direction {other}",
        "gpuscope bench --only transfers --save",
        "gpuscope explain transfer 1GB --on this",
    )


def _sources(case: TransferCase) -> tuple[str, ...]:
    if case.origin != "calibrated":
        return _SOURCES
    known = case.constants.calibration.measured_with.split("; ")
    own = next((text for text in known if "driver" in text), known[0])
    return (*_SOURCES, Text("Rates and latencies: {measured}.", measured=own))


def _assumptions(case: TransferCase) -> tuple[Text, ...]:
    said = [
        Text(
            "The host's memory is on the socket that the device hangs on, and nothing else uses "
            "the link."
        )
    ]
    if case.copy(False).note:
        said.append(
            Text(
                "Pageable copies depend on the CPU and on what its cache holds; hosts differ by a "
                "factor of two."
            )
        )
    if case.devices > 1:
        said.append(
            Text(
                "One of {devices} devices copies; others may share its switch.",
                devices=case.devices,
            )
        )
    if not case.link_is_known:
        said.append(
            Text(
                "The catalogue names no rate of {device}'s host link; that of PCIe 3.0 x16 is "
                "taken.",
                device=case.device.name,
            )
        )
    if case.origin != "calibrated":
        source = case.constants.calibration.measured_on or ""
        said.append(
            Text(
                "Shares of the link and latencies were measured on {source} and carried over; a "
                "pageable copy depends on the host.",
                source=source,
            )
        )
    return tuple(said)
