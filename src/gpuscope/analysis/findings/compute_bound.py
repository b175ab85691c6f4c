"""Arithmetic sets the step time."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import FlopRate, Percent, Seconds
from gpuscope.document.text import Text, joined

POOR = 0.5
"""Large matrix products reach 60-80 % of the dense peak; below half, shapes or kernels are at
fault."""

LEAST_SHARE = 0.40
"""Below this share of the step, arithmetic does not set its pace."""


@finding("compute_bound", needs="time", order=50)
def compute_bound(facts: Facts) -> Finding | None:
    """Applies when compute-bound kernels take 40 % of the step and more than anything else.

    Gain: what the same kernels would save at the dense peak of their dtype, which no real kernel
    reaches.
    """
    rows = facts.of_class("compute-bound")
    time_s = facts.time_of(rows)
    if facts.share(time_s) < LEAST_SHARE or not facts.is_largest("compute-bound"):
        return None
    rate = facts.per_step(facts.rows.flops, rows) / time_s
    best = facts.best_of(rows)
    of_peak = Text("")
    if best:
        of_peak = Text(", {share} of what the dense peak allows", share=Percent(best / time_s))
    speed = Text("")
    if rate > 0:
        speed = Text(" at {rate}{of_peak}", rate=FlopRate(rate), of_peak=of_peak)
    share = Percent(facts.share(time_s))
    kinds = facts.kind_times(rows)
    hint = _hints(best / time_s if best else None, "convolution" in kinds, "attention" in kinds)
    pace = Text("Arithmetic is the largest part")
    if facts.device_bound and facts.share(time_s) > 0.5:
        pace = Text("Arithmetic sets the pace")
    return Finding(
        kind="compute_bound",
        title=Text("{pace}: {share} of the step is spent computing.", pace=pace, share=share),
        evidence=Text(
            "Compute-bound kernels take {time}{speed}.", time=Seconds(time_s), speed=speed
        ),
        max_gain_s=facts.gain_of(rows),
        hint=hint,
        about=facts.about(rows),
    )


def _hints(of_peak: float | None, convolves: bool, attends: bool) -> Text:
    """What to try first; only what the program has can be made better."""
    if of_peak is not None and of_peak < POOR:
        ways = [Text("larger or better aligned shapes")]
        if convolves:
            ways.append(Text("a better layout (channels_last)"))
        if attends:
            ways.append(Text("fused attention (scaled_dot_product_attention)"))
        return Text("The kernels are far from their peak: {ways} come first.", ways=joined(ways))
    return Text(
        "Compute less or in a smaller dtype (bf16, fp8 where the model bears it), avoid "
        "recomputation, or use more devices."
    )
