"""What became of a trial, in one sentence."""

from __future__ import annotations

from gpuscope.advice.ladder_figures import quantity
from gpuscope.advice.results import Objective, Outcome, Parity
from gpuscope.analysis.wording import seconds
from gpuscope.explain.types import Words
from gpuscope.measure.epochs import RAN_OUT
from gpuscope.measure.statistics import Interval

__all__ = ["ALTERNATED", "outcome_words", "ran_out_words", "stopped_words"]

ALTERNATED = Words(
    "Both do not fit on the device at once: they ran one after the other, in turn.",
    "设备显存放不下两者：改为轮流单独运行。",
)

_BETTER = {
    "time": Words("faster", "更快"), "cost": Words("faster", "更快"),
    "memory": Words("less memory", "显存更少"), "energy": Words("less energy", "更省电"),
}  # fmt: skip


def outcome_words(
    outcome: Outcome, ratio: Interval | None, figure: Interval | None, objective: Objective,
    parity: Parity | None,
) -> Words:  # fmt: skip
    """One sentence on a trial that ran.

    Args:
        outcome: "kept", "even", "slower" or "parity".
        ratio: of the step times, before over after.
        figure: of what was to become better, before over after.
        objective: what that is.
        parity: how the results compare, where that was looked at.
    """
    if ratio is None or figure is None:
        return Words("It was not timed.", "没有计时。")
    told = f"{figure.median:.3f}× ({figure.low:.3f} to {figure.high:.3f})"
    zh = f"{figure.median:.3f}×（{figure.low:.3f} 到 {figure.high:.3f}）"
    better = _BETTER[objective]
    if outcome == "kept" and parity is None:
        return Words(
            f"{told} {better.en}; its results were compared as part of the whole.",
            f"{better.zh} {zh}，结果已随整个组合比较过。",
        )
    if outcome == "kept":
        return Words(f"{told} {better.en}; the results agree.", f"{better.zh} {zh}，结果一致。")
    if outcome == "parity":
        why = _parity_words(parity)
        return Words(f"{told} {better.en}, but {why.en}", f"{better.zh} {zh}，但{why.zh}")
    if outcome == "slower":
        return Words(f"Worse: {told}.", f"变差：{zh}。")
    return Words(f"No gain that is sure: {told}.", f"没有确定的收益：{zh}。")


def stopped_words(took_s: float, ratio: Interval | None) -> Words:
    """One sentence on a trial that the user has ended.

    Args:
        took_s: until then.
        ratio: of the step times, before over after; None where the pairs were not over.
    """
    took = seconds(took_s)
    if ratio is None:
        return Words(
            f"Stopped after {took}, before its pairs were timed.",
            f"{took} 后被停止，尚未完成计时。",
        )
    told = f"{ratio.median:.3g}× ({ratio.low:.3g} to {ratio.high:.3g})"
    zh = f"{ratio.median:.3g}×（{ratio.low:.3g} 到 {ratio.high:.3g}）"
    return Words(
        f"Stopped after {took}: {told}, but its results were not compared yet.",
        f"{took} 后被停止：{zh}，但结果尚未比较。",
    )


def ran_out_words(batches: int) -> Words:
    """One sentence on a loader that ran out and began again.

    Args:
        batches: that it had given.
    """
    return Words(
        RAN_OUT.format(n=batches),
        f"数据加载器在 {batches} 个批次后用完，已从头开始。",
    )


def _parity_words(parity: Parity | None) -> Words:
    if parity is None:
        return Words("the results were not compared.", "没有比较结果。")
    if parity.verdict == "overflow":
        return Words(
            "it gives NaN or infinity where the original does not.",
            "出现了原代码没有的 NaN 或无穷大。",
        )
    if parity.verdict == "unchecked":
        note = parity.note or Words("nothing comparable was seen.", "没有可比较的量。")
        return Words(f"the results could not be compared: {note.en}", f"结果无法比较：{note.zh}")
    worst = [c for c in parity.compared if not c.agrees]
    if not worst:
        return Words("the results differ.", "结果不一致。")
    first = max(worst, key=lambda c: c.largest / c.tolerance if c.tolerance else c.largest)
    what = quantity(first.what)
    return Words(
        f"the results differ: {what.en} by {first.largest:.2g}, where {first.tolerance:.2g} is"
        " allowed.",
        f"结果不一致：{what.zh}相差 {first.largest:.2g}，允许 {first.tolerance:.2g}。",
    )
