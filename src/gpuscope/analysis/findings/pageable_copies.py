"""Copies from or to pageable memory: slow, and the host stands still for them."""

from __future__ import annotations

import re

from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.findings.culprits import spots_of
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import byte_rate, percent, seconds, size

LEAST_SHARE = 0.02
"""Below this share of the step it is not worth a sentence."""

LEAST_BYTES = 1 << 20
"""Fewer bytes a step are scalars and flags; pinned memory would not help them."""

_COPY_CALL = re.compile(r"mem_?cpy", re.IGNORECASE)


@finding
def pageable_copies(facts: Facts) -> Finding | None:
    """Applies when pageable copies and the calls that stage them cost a fiftieth of the step.

    Gain: their time with no kernel beside it and the idle time in their calls, as if they went
    from pinned memory beside the computation. A pageable copy cannot: the driver first moves it
    through a pinned buffer of its own, in the calling thread.
    """
    slow = [copy for copy in facts.copies if copy.memory == "pageable" and is_large(copy)]
    if not slow:
        return None
    exposed = sum(copy.exposed_s for copy in slow)
    staging = sum(
        spot.time_s
        for spot in spots_of(facts, "host dispatching")
        if _COPY_CALL.search(spot.what) or _COPY_CALL.search(spot.within)
    )
    gain = exposed + staging
    if facts.share(gain) < LEAST_SHARE:
        return None
    worst = max(slow, key=lambda copy: copy.exposed_s)
    count = sum(copy.count for copy in slow)
    rate, rate_zh = _rates(facts, worst)
    stands = f"; the device waits {seconds(staging)} more in the calls" if staging > 0 else ""
    stands_zh = f"；设备还在这些调用中等待了 {seconds(staging)}" if staging > 0 else ""
    share = percent(facts.share(gain))
    return Finding(
        kind="pageable_copies",
        title=f"Copies through pageable host memory cost {share} of the step.",
        evidence=f"{count} {'copy' if count == 1 else 'copies'} a step "
        f"{'takes' if count == 1 else 'take'} {seconds(exposed)} with no kernel beside"
        f"{rate}{stands}.",
        max_gain_s=gain,
        hint="Use pinned memory: pin_memory=True in the DataLoader, or tensor.pin_memory() once, "
        "then .to(device, non_blocking=True).",
        title_zh=f"经由可分页主机内存的拷贝占一步的 {share}。",
        evidence_zh=f"每步 {count} 次拷贝共用 {seconds(exposed)}，期间没有内核运行"
        f"{rate_zh}{stands_zh}。",
        hint_zh="使用锁页内存：在 DataLoader 中设置 pin_memory=True，或预先 tensor.pin_memory()，"
        "再用 .to(device, non_blocking=True)。",
    )


def is_large(copy: CopyKind) -> bool:
    """Return whether copies bring more than scalars and flags."""
    return copy.total_bytes is None or copy.total_bytes >= LEAST_BYTES


def _rates(facts: Facts, copy: CopyKind) -> tuple[str, str]:
    """What it reached, and what pinned memory reaches in the same recording or over the link."""
    if copy.rate_bytes_per_s is None or copy.total_bytes is None:
        return "", ""
    moved, rate = size(copy.total_bytes), byte_rate(copy.rate_bytes_per_s)
    pinned = [
        other.rate_bytes_per_s
        for other in facts.copies
        if other.memory == "pinned"
        and other.direction == copy.direction
        and other.rate_bytes_per_s
        and (other.largest_bytes or 0) >= LEAST_BYTES
    ]
    against, against_zh = "", ""
    if pinned:
        best = byte_rate(max(pinned))
        against, against_zh = f"; pinned copies here reach {best}", f"；这里的锁页拷贝达到 {best}"
    elif copy.link_bytes_per_s:
        link = byte_rate(copy.link_bytes_per_s)
        against, against_zh = f" of the link's {link}", f"（链路为 {link}）"
    return f" ({moved} at {rate}{against})", f"（{moved}，{rate}{against_zh}）"
