"""Copies between host and device that no kernel hides."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.pageable_copies import LEAST_SHARE as PAGEABLE_SHARE
from gpuscope.analysis.findings.pageable_copies import is_large
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import byte_rate, percent, seconds, size

LEAST_SHARE = 0.05
"""Copies below this share of the step are not worth a sentence."""

LEAST_HIDDEN = 0.10
"""Copies with this share of their time beside kernels are overlapped already, if not enough."""


@finding
def transfer_bound(facts: Facts) -> Finding | None:
    """Applies when exposed copies take a twentieth of the step or more.

    Not where nearly all of that is from pageable memory, which `pageable_copies` tells. Copies
    that run beside kernels for part of their length are on a stream of their own already: then
    the kernels' stream waits for them, and the advice is another.

    Gain: all of their exposed time, as if they were hidden under kernels.
    """
    copies = facts.of_class("transfers")
    time_s = facts.time_of(copies)
    if facts.share(time_s - _pageable_s(facts)) < LEAST_SHARE:
        return None
    if _hidden_s(facts) >= LEAST_HIDDEN * (time_s + _hidden_s(facts)):
        return _overlapped(facts, time_s)
    moved = facts.per_step(facts.rows.moved_bytes, copies)
    share, count = percent(facts.share(time_s)), facts.count_of(copies)
    rate, rate_zh = "", ""
    if moved > 0:
        # The rate is over the copies' whole length, hidden parts included.
        ran = np.asarray(
            (facts.rows.work.end_ns - facts.rows.work.start_ns) * 1e-9, np.float64
        )
        speed = byte_rate(moved / facts.per_step(ran, copies))
        rate, rate_zh = f": {size(moved)} at {speed}", f"：{size(moved)}，{speed}"
        link = facts.device.host_link_bandwidth_bytes_per_s if facts.device else None
        if link:
            rate += f" of the link's {byte_rate(link)}"
            rate_zh += f"（链路为 {byte_rate(link)}）"
    return Finding(
        kind="transfer_bound",
        title=f"Copies between host and device take {share} of the step, with nothing beside them.",
        evidence=f"{_copies(count)} {seconds(time_s)} while no kernel runs{rate}.",
        max_gain_s=time_s,
        hint="Copy from pinned memory with non_blocking=True on a stream of its own while the "
        "step before computes; keep on the device what does not change; send smaller dtypes.",
        title_zh=f"主机与设备之间的拷贝占一步的 {share}，期间没有任何计算。",
        evidence_zh=f"{count} 次拷贝共用 {seconds(time_s)}，期间没有内核运行{rate_zh}。",
        hint_zh="使用锁页内存和 non_blocking=True，在单独的流上与上一步的计算重叠；"
        "不变的数据留在设备上；传输更小的数据类型。",
    )


def _host_copies(facts: Facts) -> list[CopyKind]:
    """Copies between host and device; nothing is known of predicted ones."""
    found = [] if facts.trust is None else facts.copies
    return [copy for copy in found if copy.direction in ("host to device", "device to host")]


def _pageable_s(facts: Facts) -> float:
    """Exposed seconds of pageable copies that are large enough for a finding of their own."""
    slow = [c for c in _host_copies(facts) if c.memory == "pageable" and is_large(c)]
    exposed = sum(copy.exposed_s for copy in slow)
    return exposed if facts.share(exposed) >= PAGEABLE_SHARE else 0.0


def _hidden_s(facts: Facts) -> float:
    """Seconds a step in which copies run beside kernels."""
    return sum(copy.time_s - copy.exposed_s for copy in _host_copies(facts))


def _copies(count: int) -> str:
    return "1 copy takes" if count == 1 else f"{count} copies take"


def _overlapped(facts: Facts, time_s: float) -> Finding:
    """Copies on a stream of their own that are longer than the kernels beside them."""
    found = max(_host_copies(facts), key=lambda copy: copy.time_s)
    hidden = _hidden_s(facts)
    count = sum(copy.count for copy in _host_copies(facts))
    rate = rate_zh = ""
    if found.total_bytes and found.rate_bytes_per_s:
        moved = f"{size(found.total_bytes)}, {byte_rate(found.rate_bytes_per_s)}"
        link = byte_rate(found.link_bytes_per_s) if found.link_bytes_per_s else ""
        rate = f" ({moved}{f' of the {link} of the link' if link else ''})"
        rate_zh = f"（{moved}{f'，链路为 {link}' if link else ''}）"
    share, all_s = percent(facts.share(time_s)), seconds(time_s + hidden)
    return Finding(
        kind="transfer_bound",
        title=f"Kernels wait {share} of the step for a copy on another stream: it is overlapped, "
        "but longer than the work beside it.",
        evidence=f"{_copies(count)} {all_s}{rate}: {seconds(hidden)} of it beside kernels, then "
        f"{seconds(time_s)} with nothing beside it, while the kernels' stream waits.",
        max_gain_s=time_s,
        hint="Start the copy earlier (prefetch a step ahead, into a second buffer), put more "
        "computation before its result is needed, or send less (smaller dtypes, keep on the "
        "device what does not change).",
        title_zh=f"内核在一步中有 {share} 的时间等待另一个流上的拷贝：拷贝已重叠，"
        "但比同时进行的计算更长。",
        evidence_zh=f"{count} 次拷贝共用 {all_s}{rate_zh}：其中 {seconds(hidden)} 与内核同时进行，"
        f"随后 {seconds(time_s)} 没有任何计算，内核所在的流在等待。",
        hint_zh="更早开始拷贝（提前一步预取到第二个缓冲区），把更多计算放在需要结果之前，"
        "或减少传输（更小的数据类型，不变的数据留在设备上）。",
    )
