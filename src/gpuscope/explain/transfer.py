"""`explain transfer`: a copy between host and device, pageable, pinned, and under arithmetic."""

from __future__ import annotations

from gpuscope.api import Target
from gpuscope.explain.equal_work import ITEM_BYTES, Square, square_product
from gpuscope.explain.numbers import count, percent, rate, seconds, size, three
from gpuscope.explain.registry import topic
from gpuscope.explain.transfer_case import DIRECTIONS, Case, make_case
from gpuscope.explain.transfer_curves import (
    PAGEABLE,
    PINNED,
    break_even,
    explorer,
    in_pieces,
    rate_over_size,
)
from gpuscope.explain.transfer_overlap import (
    best_chunks,
    chunk_table,
    how_to,
    side_by_side,
)
from gpuscope.explain.types import (
    Block,
    Diagram,
    Explanation,
    Fact,
    Facts,
    Link,
    Node,
    Paragraph,
    Section,
    Words,
)
from gpuscope.hardware import rate_name

_LARGE = 8192

_SOURCES = (
    "NVIDIA, CUDA C++ Best Practices Guide, Data Transfer Between Host and Device: pinned memory, "
    "asynchronous and overlapping transfers.",
    "PyTorch, A guide on good usage of non_blocking and pin_memory().",
)


@topic("transfer")
def transfer(
    amount: str | float, *, on: Target = "h200", pinned: bool | None = None,
    direction: str = "h2d", dtype: str = "bf16",
) -> Explanation:  # fmt: skip
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
        "transfer", _title(case, amount), _summary(case, pinned, large, name),
        (
            Section(Words("How long", "要多久"), (_times(case),)),
            Section(Words("The way of the bytes", "数据走的路"), (
                _path(case), *_advice(case, pinned))),
            Section(Words("Size matters", "大小的影响"), tuple(sizes)),
            Section(Words("Under arithmetic", "藏在计算之下"), tuple(overlap)),
            _worth(case, large, name),
            Section(Words("Move it yourself", "自己动手"), (explorer(case),)),
        ),
        _commands(case), _sources(case), _assumptions(case),
    )  # fmt: skip


def _title(case: Case, given: str | float) -> Words:
    typed = isinstance(given, str) and not given.strip()[-1:].isdigit()
    amount = str(given).strip() if typed else size(case.size_bytes)
    way, name = DIRECTIONS[case.way], case.device.name
    return Words(f"Copy {amount} from {way.en}: {name}", f"{way.zh}拷贝 {amount}：{name}")


def _summary(
    case: Case, pinned: bool | None, large: Square | None, dtype: str
) -> tuple[Words, ...]:
    fast, slow = case.time_s(True), case.time_s(False)
    both = Words(
        f"From pinned memory it takes {seconds(fast)} ({rate(case.rate(True), 'B/s')}), from "
        f"pageable memory {seconds(slow)} ({rate(case.rate(False), 'B/s')}): {three(slow / fast)} "
        "times as long.",
        f"锁页内存耗时 {seconds(fast)}（{rate(case.rate(True), 'B/s')}），"
        f"可分页内存耗时 {seconds(slow)}（{rate(case.rate(False), 'B/s')}）："
        f"是前者的 {three(slow / fast)} 倍。",
    )
    if abs(slow / fast - 1) < 0.01:
        both = Words(
            f"Pinned or pageable makes no difference to so small a copy: {seconds(fast)}, "
            f"{rate(case.rate(True), 'B/s')}.",
            f"这么小的拷贝，锁页与否没有差别：{seconds(fast)}，{rate(case.rate(True), 'B/s')}。",
        )
    said = [both]
    if pinned is not None:
        kernel = case.copy(pinned)
        kind = PINNED if pinned else PAGEABLE
        span = f"{seconds(kernel.low_s)} to {seconds(kernel.high_s)}"
        said.insert(0, Words(
            f"From {kind.en} memory it takes {seconds(kernel.duration_s)} (80 % sure: {span}).",
            f"{kind.zh}内存耗时 {seconds(kernel.duration_s)}"
            f"（80 % 把握：{span.replace(' to ', ' 至 ')}）。",
        ))  # fmt: skip
    if case.copy(True).limiter == "latency":
        said.append(Words(
            f"Nearly all of it is latency: below {size(case.even_bytes())} fewer bytes are hardly "
            "sooner there. Join small tensors into one copy.",
            f"几乎全是延迟：小于 {size(case.even_bytes())} 时，字节再少也快不了多少。"
            "应把小张量合并成一次拷贝。",
        ))  # fmt: skip
    else:
        hbm = case.device.memory_bandwidth_bytes_per_s
        said.append(Words(
            f"{case.link_name} is the narrow place: the device's own memory is "
            f"{three(hbm / case.rate(True))} times as fast.",
            f"最窄处是 {case.link_name}：设备自己的显存快 {three(hbm / case.rate(True))} 倍。",
        ))  # fmt: skip
    if large is not None and case.copy(True).limiter != "latency":
        flops = large.flops / large.time_s * fast
        said.append(Words(
            f"Meanwhile the device could do {rate(flops, 'FLOP')} of {dtype} products: copying "
            f"pays if each byte is used for {count(flops / case.size_bytes)} FLOP or more, or if "
            "it is hidden under other work.",
            f"这段时间设备可做 {rate(flops, 'FLOP')} 的 {dtype} 矩阵乘："
            f"每字节用于 {count(flops / case.size_bytes)} FLOP 以上的计算才划算，"
            "或者把它藏在别的计算之下。",
        ))  # fmt: skip
    return tuple(said)


def _times(case: Case) -> Facts:
    rows = []
    for pinned, kind in ((True, PINNED), (False, PAGEABLE)):
        kernel = case.copy(pinned)
        rows += [
            Fact(Words(f"{kind.en}: time", f"{kind.zh}：时间"), kernel.duration_s, "s",
                 case.origin, kernel.low_s, kernel.high_s),
            Fact(Words(f"{kind.en}: rate", f"{kind.zh}：速率"), case.rate(pinned), "bytes/s",
                 "computed", note=_of_link(case, pinned)),
        ]  # fmt: skip
    rows += [
        Fact(Words("half the rate is reached at", "达到一半速率的大小"), case.even_bytes(), "bytes",
             "computed", note=Words("pinned: where latency = bytes / rate",
                                    "锁页：延迟 = 字节数 / 速率之处")),
        Fact(Words(f"{case.link_name}, one way", f"{case.link_name}，单向"), case.link_bytes_per_s,
             "bytes/s", _link_origin(case)),
        Fact(Words("device memory", "显存"), case.device.memory_bandwidth_bytes_per_s, "bytes/s",
             case.device.origin("memory_bandwidth_bytes_per_s") or "",
             note=_read_again(case)),
    ]  # fmt: skip
    return Facts(tuple(rows))


def _of_link(case: Case, pinned: bool) -> Words:
    share = percent(case.rate(pinned) / case.link_bytes_per_s)
    return Words(f"{share} of the link", f"链路的 {share}")


def _link_origin(case: Case) -> str:
    link = case.device.host_link
    return link.bandwidth_origin if link is not None and case.link_is_known else "estimated"


def _read_again(case: Case) -> Words:
    again = seconds(case.size_bytes / case.device.memory_bandwidth_bytes_per_s)
    return Words(f"the same bytes once: {again}", f"同样的字节读一遍：{again}")


def _path(case: Case) -> Diagram:
    """The places on the way, in the direction of the copy; one step for each kind of memory."""
    staged = case.copy(False).note != ""
    memory = case.device.memory_type or "memory"
    bus = case.link_name.partition(" (")[0]
    nodes = [
        Node("pageable", Words("host memory (pageable)", "主机内存（可分页）"), "host memory",
             0.1, 0.25, 0.17, 0.2),
        Node("pinned", Words("host memory (pinned)", "主机内存（锁页）"), "host memory",
             0.1, 0.75, 0.17, 0.2),
        Node("bus", Words(bus, bus), "switch", 0.64, 0.5, 0.14, 0.2),
        Node("device", Words(f"device {memory}", f"设备 {memory}"), "memory", 0.92, 0.5, 0.14, 0.2),
    ]  # fmt: skip
    if staged:
        said = Words("staging (pinned)", "暂存区（锁页）")
        nodes.insert(1, Node("staging", said, "host memory", 0.39, 0.25, 0.14, 0.2))
    note = None
    if staged:
        whole = (
            Words("measured", "实测") if case.origin == "calibrated" else Words("estimated", "估计")
        )
        note = Words(
            "How fast the CPU alone could copy is not known; the whole chain's rate is "
            f"{whole.en}.",
            f"CPU 单独能拷多快不得而知；整条链路的速率为{whole.zh}值。",
        )
    return Diagram(
        Words("From where to where, and how fast", "从哪里到哪里，有多快"), tuple(nodes),
        (*_ways(case, False, staged), *_ways(case, True, False)),
        (Words("pageable memory", "可分页内存"), Words("pinned memory", "锁页内存")), note,
    )  # fmt: skip


def _ways(case: Case, pinned: bool, staged: bool) -> tuple[Link, ...]:
    """The ways of one kind of memory, turned round where the copy goes to the host."""
    down = case.way == "d2h"
    reads, writes = Words("DMA read", "DMA 读"), Words("DMA write", "DMA 写")
    narrow = not staged and case.copy(pinned).limiter != "latency"
    source = "pinned" if pinned else "pageable"
    ways: list[tuple[str, str, Words, float | None, bool]] = []
    if staged:
        ways.append((source, "staging", Words("CPU copy", "CPU 拷贝"), None, True))
        source = "staging"
    ways += [
        (source, "bus", writes if down else reads, case.link_bytes_per_s, narrow),
        ("bus", "device", reads if down else writes, case.device.memory_bandwidth_bytes_per_s,
         False),
    ]  # fmt: skip
    rate = case.rate(pinned)
    turned = [(b, a, *rest) for a, b, *rest in reversed(ways)] if down else ways
    return tuple(
        Link(a, b, label, rate, limit, narrowest, step=int(pinned))  # type: ignore[arg-type]
        for a, b, label, limit, narrowest in turned
    )


def _advice(case: Case, pinned: bool | None) -> tuple[Paragraph, ...]:
    said = []
    if pinned is not True and case.copy(False).note:
        said.append(Paragraph(Words(
            "A pageable copy makes the host wait, whatever non_blocking says: its pages may be "
            "moved, so the driver must first copy them to where they cannot.",
            "无论 non_blocking 如何，可分页拷贝都会让主机等待：页面可能被移动，"
            "驱动必须先把它们拷到不会移动的地方。"), "key"))  # fmt: skip
    said.append(Paragraph(Words(
        "Pinning takes time itself, and pinned pages are lost to the rest of the system: pin once "
        "and reuse. That time is not counted here.",
        "锁页本身也要时间，且锁住的页面系统其余部分用不了：应锁一次、反复用。此处未计锁页时间。"),
        "doubt"))  # fmt: skip
    return tuple(said)


def _worth(case: Case, large: Square | None, dtype: str) -> Section:
    """When copying costs more than computing."""
    title = Words("When copying costs more than computing", "何时拷贝比计算更贵")
    table = break_even(case, dtype) if dtype in ITEM_BYTES else None
    if table is None or large is None:
        text = Words(
            f"{case.device.name} has no stated {dtype} rate, so no product is compared.",
            f"{case.device.name} 没有公布 {dtype} 速率，因此不与矩阵乘比较。",
        )
        return Section(title, (Paragraph(text, "doubt"),))
    needed = large.flops / large.time_s / case.rate(True)
    own = large.flops / large.time_s / case.device.memory_bandwidth_bytes_per_s
    rows = (
        Fact(Words("arithmetic per byte that balances the link", "与链路平衡的每字节运算"), needed,
             "flop/byte", "computed",
             note=Words("what large products reach / rate of the copy", "大矩阵乘速率 / 拷贝速率")),
        Fact(Words("that balances device memory", "与显存平衡的每字节运算"), own, "flop/byte",
             "computed", note=Words("the same over the memory's rate", "同样的速率 / 显存带宽")),
    )  # fmt: skip
    text = Words(
        "An addition or an activation does a few FLOP a byte: copying data up for it alone never "
        "pays. Data should come once and stay.",
        "加法、激活函数每字节只有几次运算：只为它们上传数据永远不划算。数据应上传一次、留在设备上。",
    )
    return Section(title, (Facts(rows), table, Paragraph(text)))


def _commands(case: Case) -> tuple[str, ...]:
    other = "d2h" if case.way == "h2d" else "h2d"
    return (
        f"gpuscope explain transfer {case.size_bytes}B --on {case.device.id} --direction {other}",
        "gpuscope bench --only transfers --save",
        "gpuscope explain transfer 1GB --on this",
    )


def _sources(case: Case) -> tuple[str, ...]:
    if case.origin != "calibrated":
        return _SOURCES
    known = case.constants.calibration.measured_with.split("; ")
    own = next((text for text in known if "driver" in text), known[0])
    return (*_SOURCES, f"Rates and latencies: {own}.")


def _assumptions(case: Case) -> tuple[Words, ...]:
    said = [Words(
        "The host's memory is on the socket that the device hangs on, and nothing else uses the "
        "link.",
        "主机内存位于设备所在的 CPU 插槽，链路上没有其他流量。")]  # fmt: skip
    if case.copy(False).note:
        said.append(Words(
            "Pageable copies depend on the CPU and on what its cache holds; hosts differ by a "
            "factor of two.",
            "可分页拷贝取决于 CPU 及其缓存内容；不同主机可相差两倍。"))  # fmt: skip
    if case.devices > 1:
        said.append(Words(
            f"One of {case.devices} devices copies; others may share its switch.",
            f"{case.devices} 个设备中只有一个在拷贝；其余设备可能共用同一交换机。"))  # fmt: skip
    if not case.link_is_known:
        said.append(Words(
            f"The catalogue names no rate of {case.device.name}'s host link; that of PCIe 3.0 x16 "
            "is taken.",
            f"目录中没有 {case.device.name} 主机链路的速率，按 PCIe 3.0 x16 计算。"))  # fmt: skip
    if case.origin != "calibrated":
        source = case.constants.calibration.measured_on or ""
        said.append(Words(
            f"Shares of the link and latencies were measured on {source} and carried over; a "
            "pageable copy depends on the host.",
            f"链路利用率与延迟测自 {source}，折算而来；可分页拷贝取决于主机。"))  # fmt: skip
    return tuple(said)
