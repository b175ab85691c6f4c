"""Kernels so short that starting them costs more than their work."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.10
"""Below this share of the step it is not worth a sentence."""

SHORT_GAP_S = 1e-6
"""Gaps that average less are what the device needs between any two kernels, graph or not."""


@finding("launch_bound", needs="time", order=60)
def launch_bound(facts: Facts) -> Finding | None:
    """Applies when launch-bound kernels and the gaps between launches take a tenth of the step.

    Not of a run on the host's own processor: nothing is launched there.

    Gain: the gaps, and what the kernels take beyond the roofline, as if all were fused into
    kernels long enough.
    """
    if facts.on_host:
        return None
    rows = facts.of_class("launch-bound")
    kernels_s, gaps_s = facts.time_of(rows), facts.idle("launch gap")
    if facts.share(kernels_s + gaps_s) < LEAST_SHARE:
        return None
    count = facts.count_of(rows)
    gaps = sum(spot.count for spot in facts.idle_spots if spot.cause == "launch gap")
    if not count and gaps_s < SHORT_GAP_S * gaps:
        return None
    share = Percent(facts.share(kernels_s + gaps_s))
    gain = facts.gain_of(rows)
    title = Text("Gaps between kernels take {share} of the step.", share=share)
    took = Text("")
    if count:
        title = Text(
            "Starting kernels takes {share} of the step: they are too short for the device.",
            share=share,
        )
        took = Text(
            "{count} kernels that average {each} take {total}; ",
            count=count,
            each=Seconds(kernels_s / count),
            total=Seconds(kernels_s),
        )
    calls = _calls(facts)
    graphs = _graphs(facts)
    return Finding(
        kind="launch_bound",
        title=title,
        evidence=Text(
            "{took}the {gaps} gaps before kernels that were launched in time add "
            "{gaps_time}.{calls}",
            took=took,
            gaps=gaps,
            gaps_time=Seconds(gaps_s),
            calls=calls,
        ),
        max_gain_s=(kernels_s if gain is None else gain) + gaps_s,
        hint=Text(
            "Fuse them (torch.compile, fused or foreach optimizer, fused norms and "
            "losses){graphs}, or give each more work (a larger batch).",
            graphs=graphs,
        ),
        about=facts.about(rows, idle=("launch gap",)),
    )


def _graphs(facts: Facts) -> Text:
    """The advice to use graphs, where they are not in use."""
    if facts.launches is not None and facts.launches.graph_launches:
        return Text("")
    return Text(", use CUDA graphs for shorter gaps")


def _calls(facts: Facts) -> Text:
    """How the kernels are launched, where that is recorded."""
    found = facts.launches
    if found is None or found.call_median_s is None or not found.count:
        return Text("")
    call, short = Seconds(found.call_median_s), found.short_kernels
    if not short:
        return Text(" A step makes {calls} launch calls of {call}.", calls=found.count, call=call)
    return Text(
        " A step makes {calls} launch calls of {call}; {short} kernels are shorter than their own "
        "call.",
        calls=found.count,
        call=call,
        short=short,
    )
