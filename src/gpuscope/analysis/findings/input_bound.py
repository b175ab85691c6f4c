"""The device waits for its input."""

from __future__ import annotations

from gpuscope.analysis.findings.culprits import named
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""Waits below this share of the step are not worth a sentence."""


@finding
def input_bound(facts: Facts) -> Finding | None:
    """Applies when the device idles for input during a twentieth of the step or more.

    Gain: all of that idle time, as if every batch were there in time.
    """
    wait = facts.idle("waiting for data")
    if facts.share(wait) < LEAST_SHARE:
        return None
    share = percent(facts.share(wait))
    largest, largest_zh = named(facts, "waiting for data")
    return Finding(
        kind="input_bound",
        title=f"The device waits for input data {share} of the step.",
        evidence=f"It stood idle for {seconds(wait)} of {seconds(facts.step_s)} while the host "
        f"prepared the next batch.{largest}",
        max_gain_s=wait,
        hint="More DataLoader workers (num_workers, persistent_workers, prefetch_factor), "
        "pin_memory=True, and heavy transforms done ahead or on the device.",
        title_zh=f"设备在一步中有 {share} 的时间在等待输入数据。",
        evidence_zh=f"主机准备下一批数据时，设备在 {seconds(facts.step_s)} 中空闲了 "
        f"{seconds(wait)}。{largest_zh}",
        hint_zh="增加 DataLoader 的工作进程（num_workers、persistent_workers、prefetch_factor），"
        "设置 pin_memory=True，把耗时的变换提前做好或放到设备上。",
    )
