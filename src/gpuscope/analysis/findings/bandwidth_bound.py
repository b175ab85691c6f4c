"""Device memory bandwidth sets the step time."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import ByteRate, Bytes, Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.40
"""Below this share of the step, bandwidth does not set its pace."""

_READERS = frozenset({"matmul", "attention"})


@finding("bandwidth_bound", needs="time", order=40)
def bandwidth_bound(facts: Facts) -> Finding | None:
    """Applies when bandwidth-bound kernels take 40 % of the step and more than anything else.

    Gain: what the same kernels would save if each moved the fewest bytes possible at the full
    bandwidth. Moving less in the first place (fusion, smaller dtypes) can save more, but that is
    another program.
    """
    rows = facts.of_class("bandwidth-bound")
    time_s = facts.time_of(rows)
    if facts.share(time_s) < LEAST_SHARE or not facts.is_largest("bandwidth-bound"):
        return None
    moved = facts.per_step(facts.rows.moved_bytes, rows)
    of_peak = Text("")
    if facts.device:
        peak = facts.device.memory_bandwidth_bytes_per_s
        of_peak = Text(
            ", {share} of the device's {peak}",
            share=Percent(moved / time_s / peak),
            peak=ByteRate(peak),
        )
    share = Percent(facts.share(time_s))
    hint = _hints(facts.kind_times(rows))
    pace = Text("Memory traffic is the largest part")
    if facts.device_bound and facts.share(time_s) > 0.5:
        pace = Text("Device memory bandwidth sets the pace")
    moving = Text("")
    if moved > 0:
        moving = Text(
            " and move {moved}: {speed}{of_peak}",
            moved=Bytes(moved),
            speed=ByteRate(moved / time_s),
            of_peak=of_peak,
        )
    return Finding(
        kind="bandwidth_bound",
        title=Text("{pace}: {share} of the step is spent moving data.", pace=pace, share=share),
        evidence=Text(
            "Bandwidth-bound kernels take {time}{moving}.", time=Seconds(time_s), moving=moving
        ),
        max_gain_s=facts.gain_of(rows),
        hint=hint,
        about=facts.about(rows),
    )


def _hints(kinds: dict[str, float]) -> Text:
    total = sum(kinds.values())
    reading = sum(kinds.get(kind, 0.0) for kind in _READERS)
    if reading > total / 2:
        return Text(
            "Matrix products this thin only read weights or cache: use more rows per read (a "
            "larger batch, speculative decoding) or smaller ones (8- or 4-bit weights, fp8 cache)."
        )
    return Text(
        "Move less: fuse pointwise and reduction kernels (torch.compile), use a fused optimizer "
        "and loss, keep activations in 16 bits."
    )
