"""Many short kernels in a recorded timeline, where no cost model tells their limit."""

from __future__ import annotations

from gpuscope.analysis.breakdown import SHORT_KERNEL_S
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.10
"""Below this share of the step it is not worth a sentence."""


@finding("small_kernels", needs="time", order=80)
def small_kernels(facts: Facts) -> Finding | None:
    """Applies when kernels under 5 us take a tenth of the step and are half of all kernels.

    Not where graphs replay them: there a short kernel costs little more than its work;
    nor on the host's own processor, where nothing is launched.

    Gain: all of their time, as if they were fused into others.
    """
    if facts.replayed or facts.on_host:
        return None
    work = facts.rows.work
    kernels = facts.of_class("not classified")
    short = kernels & (work.end_ns - work.start_ns < SHORT_KERNEL_S * 1e9)
    time_s = facts.time_of(short)
    if facts.share(time_s) < LEAST_SHARE or short.sum() * 2 < kernels.sum():
        return None
    count, total = facts.count_of(short), facts.count_of(kernels)
    share, limit = Percent(facts.share(time_s)), Seconds(SHORT_KERNEL_S)
    return Finding(
        kind="small_kernels",
        title=Text(
            "Kernels shorter than {limit} take {share} of the step.", limit=limit, share=share
        ),
        evidence=Text(
            "{count} of {total} kernels are that short; together they take {time}, much of it "
            "starting and stopping.",
            count=count,
            total=total,
            time=Seconds(time_s),
        ),
        max_gain_s=time_s,
        about=facts.about(short),
        hint=Text("Fuse them: torch.compile, fused or foreach optimizer, fused norms and losses."),
    )
