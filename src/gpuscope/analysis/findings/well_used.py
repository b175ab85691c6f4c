"""The device is used about as well as it can be by this program."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.launch_bound import SHORT_GAP_S
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

BUSY_SHARE = 0.90
ROOF_SHARE = 0.65
"""A step whose kernels together run at this share of the roofline, on a device that is busy for
`BUSY_SHARE` of it, has little left to gain from tuning: large matrix products reach 70-80 % of a
datasheet's peak, streaming kernels about 90 % of its bandwidth."""


REPLAYED_SHARE = 0.95
"""A replayed graph whose kernels and the short gaps between them fill this much of the step waits
for nothing outside of the device."""


@finding
def replayed_graphs(facts: Facts) -> Finding | None:
    """Applies when graphs replay most kernels and the device goes through them without a wait.

    The gaps between two kernels of a graph are the device's own (about a microsecond). Gain: none
    on the host's side; what the kernels themselves could gain their graph does not tell.
    """
    found = facts.launches
    if found is None or not facts.replayed or facts.total_idle_s <= 0:
        return None
    gaps_s = facts.idle("launch gap")
    if facts.share(facts.busy_s + gaps_s) < REPLAYED_SHARE or not _short_gaps(facts, gaps_s):
        return None
    graphs, each = found.graph_launches, round(found.kernels_per_graph or 0)
    launched = "1 graph" if graphs == 1 else f"{graphs} graphs"
    busy, gaps = percent(facts.share(facts.busy_s)), percent(facts.share(gaps_s))
    return Finding(
        kind="well_used",
        title="The device works without waiting for its host: graphs replay its kernels.",
        evidence=f"A step launches {launched} of {each} kernels. The device works {busy} of the "
        f"time; {gaps} are the short gaps that it needs between two kernels itself. What the "
        "kernels read and compute is not recorded in a graph.",
        max_gain_s=0.0,
        hint="Nothing is left to launch faster. Decoding at a small batch reads all weights for "
        "each token: smaller weights (8 or 4 bits), a larger batch or fused kernels make it "
        "faster, more launches at once do not.",
        title_zh="设备无需等待主机：内核由 CUDA 图重放。",
        evidence_zh=f"一步启动 {graphs} 个图，每图 {each} 个内核。设备在 {busy} 的时间内工作；"
        f"{gaps} 是设备自身在两个内核之间需要的短间隙。图中没有记录内核读取和计算了什么。",
        hint_zh="启动方面没有可加快之处。小批量解码时每个 token 都要读取全部权重："
        "更小的权重（8 位或 4 位）、更大的批量或融合内核能更快，增加同时启动的数量则不能。",
    )


def _short_gaps(facts: Facts, gaps_s: float) -> bool:
    gaps = sum(spot.count for spot in facts.idle_spots if spot.cause == "launch gap")
    return gaps_s < SHORT_GAP_S * max(1, gaps)


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
