"""The step needs more memory than the device has."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, size


@finding
def does_not_fit(facts: Facts) -> Finding | None:
    """Applies when the peak is above the device's capacity.

    No gain is stated: a step that cannot run has no time to save.
    """
    memory = facts.memory
    if memory is None or memory.capacity_bytes is None:
        return None
    excess = memory.missing_bytes
    if excess <= 0:
        return None
    parts = sorted(memory.at_peak.items(), key=lambda item: -item[1])[:3]
    listed = ", ".join(f"{name} {size(nbytes)}" for name, nbytes in parts)
    fitting = [option for option in facts.fit if option.fits]
    need, have = size(memory.capacity_bytes + excess), size(memory.capacity_bytes)
    share = percent(excess / memory.capacity_bytes)
    return Finding(
        kind="does_not_fit",
        title=f"The step does not fit: it needs {need}, the device has {have}.",
        evidence=f"{size(excess)} ({share}) too much. Largest at the peak: {listed}.",
        max_gain_s=None,
        hint=" Or: ".join(option.text for option in fitting)
        or "No single change is enough; combine several, or use more devices.",
        title_zh=f"放不下：这一步需要 {need}，设备只有 {have}。",
        evidence_zh=f"超出 {size(excess)}（{share}）。峰值时最大的部分：{listed}。",
        hint_zh="或者：".join(option.text_zh for option in fitting)
        or "单独一项改变还不够；请组合多项，或使用更多设备。",
    )
