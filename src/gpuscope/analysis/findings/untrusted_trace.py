"""The recording cannot carry a verdict, or only with doubts."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.types import Finding

_SERIOUS = frozenset({"time", "idle", "communication"})
"""Questions without which there is no story. That memory was not recorded is no fault."""


@finding
def untrusted_trace(facts: Facts) -> Finding | None:
    """Applies when a check of the recording failed: something cannot be concluded, or is doubtful.

    Gain: none, it is about the recording.
    """
    if facts.trust is None:
        return None
    remarks = facts.trust.remarks
    failed = [r for r in remarks if r.severity == "cannot" and _SERIOUS & set(r.about)]
    doubts = [r for r in remarks if r.severity == "doubt"]
    worst = (failed + doubts)[:1]
    if not worst:
        return None
    whole = failed and not facts.trust.can_conclude["time"]
    title, title_zh = (
        ("The recording cannot be trusted: its device times mean nothing.",
         "该记录不可信：其中的设备时间没有意义。")
        if whole and worst[0].code != "no_device_work"
        else ("The recording has no device work to judge.", "该记录没有可供分析的设备工作。")
        if whole
        else ("The recording raises doubts: read the figures with care.",
              "该记录存在疑点：请谨慎看待这些数字。")
    )  # fmt: skip
    told = (failed + [r for r in doubts if r not in failed])[:3]
    return Finding(
        kind="untrusted_trace",
        title=title,
        evidence=" ".join(_words(remark) for remark in told),
        max_gain_s=None,
        hint="Record again: device activity on, one profiler at a time, a warm-up before, whole "
        "steps, a buffer large enough (fewer steps).",
        title_zh=title_zh,
        evidence_zh="".join(remark.sentence_zh for remark in told),
        hint_zh="重新记录：开启设备活动，同时只用一个分析器，先预热，记录完整的训练步，"
        "缓冲区足够大（减少步数）。",
    )


def _words(remark: Remark) -> str:
    return remark.sentence if remark.rank is None else f"Rank {remark.rank}: {remark.sentence}"
