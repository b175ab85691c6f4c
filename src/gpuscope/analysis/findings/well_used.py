"""The device is used about as well as it can be by this program."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

BUSY_SHARE = 0.90
ROOF_SHARE = 0.65
"""A step whose kernels together run at this share of the roofline, on a device that is busy for
`BUSY_SHARE` of it, has little left to gain from tuning: large matrix products reach 70-80 % of a
datasheet's peak, streaming kernels about 90 % of its bandwidth."""


@finding
def well_used(facts: Facts) -> Finding | None:
    """Applies when the device is busy and its kernels are close to their roofs. Gain: none.

    Not where a tenth of the step goes to starting kernels, to exposed copies or communication:
    that can be tuned.
    """
    everything = np.ones(len(facts.rows.work), bool)
    best = facts.best_of(everything & ~np.isnan(facts.rows.best_s))
    if best is None or facts.share(facts.busy_s) < BUSY_SHARE:
        return None
    at_work = sum(facts.time_of(facts.of_class(c)) for c in ("compute-bound", "bandwidth-bound"))
    if facts.share(best) < ROOF_SHARE or facts.share(at_work) < BUSY_SHARE:
        return None
    busy, roof = percent(facts.share(facts.busy_s)), percent(facts.share(best))
    return Finding(
        kind="well_used",
        title="The device is well used: there is little left to tune in this program.",
        evidence=f"It works {busy} of the step, and the same kernels at the roofline would still "
        f"take {seconds(best)} of {seconds(facts.step_s)} ({roof}).",
        max_gain_s=0.0,
        hint="Faster still needs another program (less work, smaller dtypes) or another device.",
        title_zh="设备利用得很好：这个程序已没有多少可调的余地。",
        evidence_zh=f"设备在一步中有 {busy} 的时间在工作；同样的内核即使达到屋顶线也需要 "
        f"{seconds(best)}（一步 {seconds(facts.step_s)} 的 {roof}）。",
        hint_zh="要更快，需要改变程序（更少的计算、更小的数据类型）或更换设备。",
    )
