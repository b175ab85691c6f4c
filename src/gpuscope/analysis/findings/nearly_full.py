"""The step fits, but so closely that it may not."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Bytes, Percent
from gpuscope.document.text import Text, sentences

MARGIN = 0.05
"""Free memory over the predicted peak below which a prediction is no promise: as far as a recorded
peak may lie above its prediction (the target of docs/accuracy.md for the worst workload)."""


@finding("nearly_full", needs="", order=230)
def nearly_full(facts: Facts) -> Finding | None:
    """Applies to predicted steps that leave less than `MARGIN` of their peak free.

    No gain is stated: the step runs, or it does not.
    """
    memory = facts.memory
    if memory is None or facts.trust is not None or memory.capacity_bytes is None:
        return None
    if memory.missing_bytes > 0 or memory.peak_bytes <= 0:
        return None
    low, high = memory.peak_bytes * (1 - MARGIN), memory.peak_bytes * (1 + MARGIN)
    if high <= memory.capacity_bytes:
        return None
    free = memory.capacity_bytes - memory.peak_bytes
    peak, have = Bytes(memory.peak_bytes), Bytes(memory.capacity_bytes)
    cached = memory.reserved_bytes
    kept = Text("")
    if cached is not None and cached > memory.peak_bytes:
        kept = Text("With what the allocator keeps it is {cached}.", cached=Bytes(cached))
    return Finding(
        kind="nearly_full",
        title=Text(
            "The step may not fit: {peak} of {have} at its peak, {free} left.",
            peak=peak,
            have=have,
            free=Bytes(free),
        ),
        evidence=sentences(
            Text(
                "The true peak may lie {margin} to either side, {low} – {high}; other programs on "
                "the device, or pieces too small for a request, need room too.",
                margin=Percent(MARGIN),
                low=Bytes(low),
                high=Bytes(high),
            ),
            kept,
        ),
        max_gain_s=None,
        hint=Text(
            "Leave a twentieth free: a smaller batch, recomputation, or "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragments."
        ),
    )
