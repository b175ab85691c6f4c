"""The device is used about as well as it can be by this program."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.launch_bound import SHORT_GAP_S
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, plural

BUSY_SHARE = 0.90
ROOF_SHARE = 0.65
"""A step whose kernels together run at this share of the roofline, on a device that is busy for
`BUSY_SHARE` of it, has little left to gain from tuning: large matrix products reach 70-80 % of a
datasheet's peak, streaming kernels about 90 % of its bandwidth."""


REPLAYED_SHARE = 0.95
"""A replayed graph whose kernels and the short gaps between them fill this much of the step waits
for nothing outside of the device."""


@finding("well_used", needs="time", order=150)
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
    busy, gaps = Percent(facts.share(facts.busy_s)), Percent(facts.share(gaps_s))
    return Finding(
        kind="well_used",
        title=Text("The device works without waiting for its host: graphs replay its kernels."),
        evidence=plural(
            "A step launches {count} graph of {each} kernels. The device works {busy} of the time; "
            "{gaps} are the short gaps that it needs between two kernels itself. What the kernels "
            "read and compute is not recorded in a graph.",
            "A step launches {count} graphs of {each} kernels. The device works {busy} of the "
            "time; {gaps} are the short gaps that it needs between two kernels itself. What the "
            "kernels read and compute is not recorded in a graph.",
            graphs,
            each=each,
            busy=busy,
            gaps=gaps,
        ),
        max_gain_s=0.0,
        hint=Text(
            "Nothing is left to launch faster. Decoding at a small batch reads all weights for "
            "each token: smaller weights (8 or 4 bits), a larger batch or fused kernels make it "
            "faster, more launches at once do not."
        ),
    )


def _short_gaps(facts: Facts, gaps_s: float) -> bool:
    gaps = sum(spot.count for spot in facts.idle_spots if spot.cause == "launch gap")
    return gaps_s < SHORT_GAP_S * max(1, gaps)


@finding("well_used", needs="time", order=150)
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
    busy, roof = Percent(facts.share(facts.busy_s)), Percent(facts.share(best))
    return Finding(
        kind="well_used",
        title=Text("The device is well used: there is little left to tune in this program."),
        evidence=Text(
            "It works {busy} of the step, and the same kernels at the roofline would still take "
            "{best} of {step} ({roof}).",
            busy=busy,
            best=Seconds(best),
            step=Seconds(facts.step_s),
            roof=roof,
        ),
        max_gain_s=0.0,
        hint=Text(
            "Faster still needs another program (less work, smaller dtypes) or another device."
        ),
    )
