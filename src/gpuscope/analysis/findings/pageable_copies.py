"""Copies from or to pageable memory: slow, and the host stands still for them."""

from __future__ import annotations

import re

from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.findings.culprits import spots_of
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import ByteRate, Bytes, Percent, Seconds
from gpuscope.document.text import Text, plural

LEAST_SHARE = 0.02
"""Below this share of the step it is not worth a sentence."""

LEAST_BYTES = 1 << 20
"""Fewer bytes a step are scalars and flags; pinned memory would not help them."""

_COPY_CALL = re.compile(r"mem_?cpy", re.IGNORECASE)


@finding("pageable_copies", needs="time", order=160)
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
    rate = _rates(facts, worst)
    stands = Text("")
    if staging > 0:
        more = Seconds(staging)
        stands = Text("; the device waits {more} more in the calls", more=more)
    share = Percent(facts.share(gain))
    return Finding(
        kind="pageable_copies",
        title=Text("Copies through pageable host memory cost {share} of the step.", share=share),
        evidence=plural(
            "{count} copy a step takes {exposed} with no kernel beside{rate}{stands}.",
            "{count} copies a step take {exposed} with no kernel beside{rate}{stands}.",
            count,
            exposed=Seconds(exposed),
            rate=rate,
            stands=stands,
        ),
        max_gain_s=gain,
        about=facts.about(
            facts.pageable(slow), idle=("host dispatching",) if staging > 0 else (), idle_s=staging
        ),
        hint=Text(
            "Use pinned memory: pin_memory=True in the DataLoader, or tensor.pin_memory() once, "
            "then .to(device, non_blocking=True)."
        ),
    )


def is_large(copy: CopyKind) -> bool:
    """Return whether copies bring more than scalars and flags."""
    return copy.total_bytes is None or copy.total_bytes >= LEAST_BYTES


def _rates(facts: Facts, copy: CopyKind) -> Text:
    """What it reached, and what pinned memory reaches in the same recording or over the link."""
    if copy.rate_bytes_per_s is None or copy.total_bytes is None:
        return Text("")
    moved, rate = Bytes(copy.total_bytes), ByteRate(copy.rate_bytes_per_s)
    pinned = [
        other.rate_bytes_per_s
        for other in facts.copies
        if other.memory == "pinned"
        and other.direction == copy.direction
        and other.rate_bytes_per_s
        and (other.largest_bytes or 0) >= LEAST_BYTES
    ]
    against = Text("")
    if pinned:
        best = ByteRate(max(pinned))
        against = Text("; pinned copies here reach {best}", best=best)
    elif copy.link_bytes_per_s:
        link = ByteRate(copy.link_bytes_per_s)
        against = Text(" of the link's {link}", link=link)
    return Text(" ({moved} at {rate}{against})", moved=moved, rate=rate, against=against)
