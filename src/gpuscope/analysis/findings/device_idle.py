"""A device that stands idle for causes that no other finding speaks of."""

from __future__ import annotations

from gpuscope.analysis.class_words import cause_words
from gpuscope.analysis.findings.culprits import named, spots_of
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.host_bound import host_bound
from gpuscope.analysis.findings.input_bound import input_bound
from gpuscope.analysis.findings.launch_bound import launch_bound
from gpuscope.analysis.findings.registry import finding, needs_of
from gpuscope.analysis.findings.sync_bound import sync_bound
from gpuscope.analysis.findings.wait_for_rank import wait_for_rank
from gpuscope.analysis.findings.well_used import replayed_graphs
from gpuscope.analysis.recorded_types import allowed
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined

LEAST_SHARE = 0.10
"""Idle time below this share of the step is usual."""

MOST_CAUSES = 3

_OTHERS = (host_bound, sync_bound, input_bound, launch_bound, wait_for_rank)

_OUTSIDE = Text(
    "The host stood in that call while the device had nothing to do: find what the call waits for "
    "outside of this recording (another process or device, the driver, what was launched before)."
)

_HINTS = {
    "host dispatching": Text(
        "Launch less: torch.compile(mode='reduce-overhead') or CUDA graphs, a fused optimizer, or "
        "more work per launch (a larger batch)."
    ),
    "host synchronising": Text(
        "Keep results on the device: avoid .item(), .cpu() and print of tensors inside the step."
    ),
    "launch gap": Text("Fewer and longer kernels: torch.compile, fused operators, CUDA graphs."),
    "waiting for data": Text(
        "More DataLoader workers, prefetching, and pinned memory copied with non_blocking=True."
    ),
    "waiting for another stream": Text(
        "Look at the events between the streams: what waits could start earlier, or need not wait."
    ),
    "waiting for another rank": Text("Record all ranks and analyze them together."),
    "unknown": Text(
        "Record the host too (ProfilerActivity.CPU, and with_stack=True), so that the cause is "
        "told."
    ),
}


@finding("device_idle", needs="idle", order=65)
def device_idle(facts: Facts) -> Finding | None:
    """Applies when a recorded device idles for a tenth of the step without a finding about it.

    Such as several causes that are each too small, waits between streams, or a host that was not
    recorded. Gain: that idle time.
    """
    if facts.trust is None or facts.on_host or facts.job is not None:
        return None
    if replayed_graphs(facts) is not None:
        return None  # the gaps between a graph's kernels are the device's own
    told = {cause for cause in facts.idle_s if _told(facts, cause)}
    left = {cause: time_s for cause, time_s in facts.idle_s.items() if cause not in told}
    total_s = sum(left.values())
    if facts.share(total_s) < LEAST_SHARE:
        return None
    largest = sorted(left, key=lambda cause: -left[cause])
    parts = [
        Text("{cause} ({time})", cause=cause_words(cause), time=Seconds(left[cause]))
        for cause in largest[:MOST_CAUSES]
    ]
    return Finding(
        kind="device_idle",
        title=Text(
            "The device stands idle {share} of the step.", share=Percent(facts.share(total_s))
        ),
        evidence=Text(
            "It works {busy} of {step}. By what the host did meanwhile: {parts}.{largest}",
            busy=Seconds(facts.busy_s),
            step=Seconds(facts.step_s),
            parts=joined(parts),
            largest=named(facts, largest[0]),
        ),
        max_gain_s=total_s,
        hint=_hint(facts, largest[0]),
        about=facts.about(idle=largest),
    )


def _hint(facts: Facts, cause: str) -> Text:
    """What to try first, by the largest cause."""
    if cause == "unknown" and any(spot.what for spot in spots_of(facts, cause)):
        return _OUTSIDE
    return _HINTS.get(cause, _HINTS["unknown"])


def _told(facts: Facts, cause: str) -> bool:
    """Whether another finding that is given is about this idle time."""
    for other in _OTHERS:
        found = other(facts)
        if found is None or not allowed(facts.trust, needs_of(found.kind)):
            continue
        causes = found.about.idle if found.about is not None else ()
        if cause in causes:
            return True
    return False
