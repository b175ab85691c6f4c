"""Copies between host and device that no kernel hides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.findings.facts import Facts, taken
from gpuscope.analysis.findings.pageable_copies import pageable_copies
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import ByteRate, Bytes, Percent, Seconds
from gpuscope.document.text import Text, plural

LEAST_SHARE = 0.05
"""Copies below this share of the step are not worth a sentence."""

LEAST_HIDDEN = 0.10
"""Copies with this share of their time beside kernels are overlapped already, if not enough."""


@finding("transfer_bound", needs="time", order=140)
def transfer_bound(facts: Facts) -> Finding | None:
    """Applies when exposed copies take a twentieth of the step or more.

    Copies that `pageable_copies` tells of are its own: no time is promised twice. Copies that run
    beside kernels for part of their length are on a stream of their own already: then the kernels'
    stream waits for them, and the advice is another.

    Gain: all of their exposed time, as if they were hidden under kernels.
    """
    told = taken(facts, pageable_copies)
    copies = facts.of_class("transfers") & ~told
    time_s = facts.time_of(copies)
    if facts.share(time_s) < LEAST_SHARE:
        return None
    kinds = [c for c in _host_copies(facts) if not (told.any() and c.memory == "pageable")]
    if _hidden_s(kinds) >= LEAST_HIDDEN * (time_s + _hidden_s(kinds)):
        return _overlapped(facts, kinds, copies, time_s)
    moved = facts.per_step(facts.rows.moved_bytes, copies)
    share, count = Percent(facts.share(time_s)), facts.count_of(copies)
    rate = Text("")
    if moved > 0:
        # The rate is over the copies' whole length, hidden parts included.
        ran = np.asarray((facts.rows.work.end_ns - facts.rows.work.start_ns) * 1e-9, np.float64)
        speed = ByteRate(moved / facts.per_step(ran, copies))
        link = facts.device.host_link_bandwidth_bytes_per_s if facts.device else None
        of_link = Text(" of the link's {link}", link=ByteRate(link)) if link else Text("")
        rate = Text(
            ": {moved} at {speed}{of_link}", moved=Bytes(moved), speed=speed, of_link=of_link
        )
    return Finding(
        kind="transfer_bound",
        title=Text(
            "Copies between host and device take {share} of the step, with nothing beside them.",
            share=share,
        ),
        evidence=plural(
            "{count} copy takes {time} while no kernel runs{rate}.",
            "{count} copies take {time} while no kernel runs{rate}.",
            count,
            time=Seconds(time_s),
            rate=rate,
        ),
        max_gain_s=time_s,
        about=facts.about(copies),
        hint=Text(
            "Copy from pinned memory with non_blocking=True on a stream of its own while the step "
            "before computes; keep on the device what does not change; send smaller dtypes."
        ),
    )


def _host_copies(facts: Facts) -> list[CopyKind]:
    """Copies between host and device; nothing is known of predicted ones."""
    found = [] if facts.trust is None else facts.copies
    return [copy for copy in found if copy.direction in ("host to device", "device to host")]


def _hidden_s(kinds: Sequence[CopyKind]) -> float:
    """Seconds a step in which copies run beside kernels."""
    return sum(copy.time_s - copy.exposed_s for copy in kinds)


def _overlapped(
    facts: Facts, kinds: Sequence[CopyKind], copies: npt.NDArray[np.bool_], time_s: float
) -> Finding:
    """Copies on a stream of their own that are longer than the kernels beside them."""
    found = max(kinds, key=lambda copy: copy.time_s)
    hidden = _hidden_s(kinds)
    count = sum(copy.count for copy in kinds)
    rate = Text("")
    if found.total_bytes and found.rate_bytes_per_s:
        link, of_link = found.link_bytes_per_s, Text("")
        if link:
            of_link = Text(" of the link's {link}", link=ByteRate(link))
        moved, speed = Bytes(found.total_bytes), ByteRate(found.rate_bytes_per_s)
        rate = Text(" ({moved} at {rate}{against})", moved=moved, rate=speed, against=of_link)
    share, all_s = Percent(facts.share(time_s)), Seconds(time_s + hidden)
    return Finding(
        kind="transfer_bound",
        title=Text(
            "Kernels wait {share} of the step for a copy on another stream: it is overlapped, but "
            "longer than the work beside it.",
            share=share,
        ),
        evidence=plural(
            "{count} copy takes {all}{rate}: {hidden} of it beside kernels, then {time} with "
            "nothing beside it, while the kernels' stream waits.",
            "{count} copies take {all}{rate}: {hidden} of it beside kernels, then {time} with "
            "nothing beside it, while the kernels' stream waits.",
            count,
            all=all_s,
            rate=rate,
            hidden=Seconds(hidden),
            time=Seconds(time_s),
        ),
        max_gain_s=time_s,
        about=facts.about(copies),
        hint=Text(
            "Start the copy earlier (prefetch a step ahead, into a second buffer), put more "
            "computation before its result is needed, or send less (smaller dtypes, keep on the "
            "device what does not change)."
        ),
    )
