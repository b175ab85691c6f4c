"""A ladder told: what was gained, by what, with which evidence, and what did not help."""

from __future__ import annotations

from gpuscope.advice.host_pace import BENCHED, SAVED
from gpuscope.advice.ladder_figures import (
    OUTCOMES,
    best_parity,
    best_trial,
    cut_short,
    duration,
    failed,
    failed_table,
    joined,
    objective_gain,
    pace,
    parity_table,
    predicted_step_s,
    quantity,
    share_of,
    step_bars,
    step_table,
    steps,
    trial_table,
    untried,
    untried_table,
)
from gpuscope.advice.results import Ladder, Trial
from gpuscope.explain.numbers import percent, seconds, size, three
from gpuscope.explain.types import (
    Block,
    Code,
    CodeLine,
    Explanation,
    Paragraph,
    Section,
    Tone,
    Words,
)

__all__ = ["explain_ladder"]

_OFF = 1.25
"""A step that takes so many times as long or short as predicted is told."""
_WAITS = 0.1
"""A step that waits for its loader for such a share of its time is told."""
_DRIFT = 0.05
"""Single measurements that are farther from the pairs than this are told apart from them."""

_ANOTHER_MACHINE = Words(
    "predictions suppose another machine, mostly another host, or are wrong here."
    " gpuscope bench --quick --save measures this one, for the next predictions.",
    "预测所设的机器（多半是主机）与这台不同，或者预测有误。"
    "gpuscope bench --quick --save 可测出本机，供下次预测使用。",
)
_WRONG = Words(
    "the host was measured, so predictions are wrong here, or the host's pace has changed since.",
    "主机已经测过，因此是预测有误，或者主机的快慢此后变了。",
)
"""Where predictions are for the host as it was benched, another bench would not help."""


def explain_ladder(ladder: Ladder, patch_path: str = "") -> Explanation:
    """Tell a ladder.

    Args:
        ladder: what `optimize` found.
        patch_path: where its patch was written, for the command that applies it; "" for nowhere.
    """
    parts = [_ladder_section(ladder), _parity_section(ladder), _failed_section(ladder),
             _trials_section(ladder), _patch_section(ladder)]  # fmt: skip
    commands = []
    if ladder.patch and patch_path:
        commands.append(f"git apply {patch_path}")
    return Explanation(
        topic="ladder", title=_title(ladder), summary=_summary(ladder),
        sections=tuple(part for part in parts if part is not None), commands=tuple(commands),
        assumptions=ladder.notes,
    )  # fmt: skip


def _title(ladder: Ladder) -> Words:
    where = f"{ladder.target.name} · {ladder.device}"
    if not ladder.best and cut_short(ladder):
        return Words(f"{where}: nothing found in this time", f"{where}：在此时间内没有找到改进")
    if not ladder.best:
        return Words(f"{where}: nothing to change", f"{where}：无需改动")
    gained = objective_gain(ladder)
    if gained is None:
        return Words(f"{where}: improved", f"{where}：已改进")
    times = three(gained)
    if ladder.objective == "memory":
        return Words(f"{where}: {times} times less memory", f"{where}：显存降到 1/{times}")
    if ladder.objective == "energy":
        return Words(f"{where}: {times} times less energy", f"{where}：能耗降到 1/{times}")
    return Words(f"{where}: {times} times as fast", f"{where}：速度为原来的 {times} 倍")


def _summary(ladder: Ladder) -> tuple[Words, ...]:
    if not ladder.best:
        found = [_nothing(ladder), _waits(ladder), _other_pace(ladder), *_troubles(ladder),
                 *_left_out(ladder), _took(ladder)]  # fmt: skip
        return tuple(each for each in found if each is not None)
    found = [_gain(ladder), _drift(ladder), _kept(ladder), _agreement(ladder), _prediction(ladder),
             _waits(ladder), _other_pace(ladder), *_troubles(ladder), *_left_out(ladder),
             _took(ladder)]  # fmt: skip
    return tuple(each for each in found if each is not None)


def _nothing(ladder: Ladder) -> Words:
    step = seconds(ladder.baseline.step_s)
    ran = [t for t in ladder.trials if t.outcome != "skipped"]
    if not ran:
        return _nothing_tried(ladder, step)
    n = len(ran)
    some = "1 trial" if n == 1 else f"{n} trials"
    if cut_short(ladder):
        return Words(
            f"A step takes {step}; nothing won in the time there was ({some}).",
            f"一步需要 {step}；在现有时间内没有改动胜出（{n} 次试验）。",
        )
    return Words(
        f"A step takes {step}; nothing of what was tried makes it better ({some})."
        " Leave it as it is.",
        f"一步需要 {step}；试过的改动（{n} 次试验）都没有改善。保持原样即可。",
    )


def _nothing_tried(ladder: Ladder, step: str) -> Words:
    """Why there was no trial: stopped, no time, nothing applies, or nothing is expected."""
    under_way = next((t for t in ladder.trials if t.seconds > 0), None)
    if under_way is not None:
        names = joined(under_way.added)
        return Words(
            f"A step takes {step}; no trial was over. {names.en}: {under_way.why.en}",
            f"一步需要 {step}；没有完成任何试验。{names.zh}：{under_way.why.zh}",
        )
    if cut_short(ladder):
        return Words(
            f"A step takes {step}; the time was over before anything was tried.",
            f"一步需要 {step}；还没有试任何改动，时间就已用完。",
        )
    if not ladder.trials:
        return Words(
            f"A step takes {step}; no change that can be made on this device applies here.",
            f"一步需要 {step}；在该设备上可做的改动都不适用。",
        )
    return Words(
        f"A step takes {step}; no change is expected to gain anything. Leave it as it is.",
        f"一步需要 {step}；预计没有改动能带来收益。保持原样即可。",
    )


def _gain(ladder: Ladder) -> Words:
    last = best_trial(ladder)
    before = ladder.baseline
    interval = ""
    if ladder.low is not None and ladder.high is not None:
        interval = f"{three(ladder.low)}–{three(ladder.high)}"
    if last is None or last.measured is None:
        times = three(ladder.speedup) if ladder.speedup else "?"
        return Words(f"{times}× ({interval}, 95 %).", f"{times} 倍（95% 区间 {interval}）。")
    after = last.measured
    old, new = seconds(before.step_s), seconds(after.step_s)
    pace_before, unit = pace(ladder, before)
    if unit != "s":
        pace_after, _ = pace(ladder, after)
        rates = f"{rate_of(pace_before)} → {rate_of(pace_after)} {unit}"
        tail = (f" ({rates})", f"（{rates}）")
    else:
        tail = ("", "")
    if ladder.objective == "memory" and before.peak_memory_bytes:
        held = size(before.peak_memory_bytes), size(after.peak_memory_bytes or 0)
        return Words(
            f"A step holds {held[1]} instead of {held[0]}; it takes {new} instead of {old}.",
            f"一步占用显存 {held[1]}，原来 {held[0]}；用时 {new}，原来 {old}。",
        )
    factor = three(ladder.speedup) if ladder.speedup else "?"
    return Words(
        f"A step takes {new} instead of {old}{tail[0]}: {factor}× ({interval}, 95 %).",
        f"一步用时 {new}，原来 {old}{tail[1]}：{factor} 倍（95% 区间 {interval}）。",
    )


def _drift(ladder: Ladder) -> Words | None:
    """Where single measurements and pairs do not agree: the machine's pace has changed."""
    last = best_trial(ladder)
    after = last.measured if last is not None else None
    if after is None or not ladder.speedup or ladder.objective == "memory":
        return None
    if abs(ladder.baseline.step_s / after.step_s / ladder.speedup - 1) <= _DRIFT:
        return None
    return Words(
        "The two step times were measured at different times, and the machine's pace has changed"
        " meanwhile; the gain is from pairs that took turns.",
        "两个步时间在不同时刻测得，其间机器的快慢有变化；收益取自交替进行的成对测量。",
    )


def rate_of(value: float) -> str:
    """Work per second, three digits, thousands apart."""
    return f"{value:,.0f}" if value >= 100 else three(value)


def _kept(ladder: Ladder) -> Words:
    names = joined(ladder.best)
    return Words(f"Kept: {names.en}.", f"保留：{names.zh}。")


def _agreement(ladder: Ladder) -> Words | None:
    parity = best_parity(ladder)
    if parity is None:
        return None
    if parity.verdict == "distribution":
        return Words(
            "The original varies from run to run; the results agree within its own spread.",
            "原始代码每次运行结果都有波动；改动后的结果在其波动范围内一致。",
        )
    if not parity.compared:
        return parity.note
    closest = max(parity.compared, key=lambda c: c.largest / c.tolerance if c.tolerance else 0.0)
    what, off, room = quantity(closest.what), share_of(closest.largest), share_of(closest.tolerance)
    if all(c.largest == 0 for c in parity.compared):
        return Words("Results are the original's, to the last bit.", "结果与原始逐位相同。")
    return Words(
        f"Results agree with the original's: {what.en} within {off} ({room} is allowed).",
        f"结果与原始一致：{what.zh}最大相差 {off}（允许 {room}）。",
    )


def _prediction(ladder: Ladder) -> Words | None:
    forecasts = [
        t.forecast for t in ladder.trials if set(t.names) == set(ladder.best) and t.forecast
    ]
    expected = forecasts[-1].speedup if forecasts else None
    if expected is None or ladder.speedup is None:
        return None
    off = expected / ladder.speedup - 1
    side = ("more", "偏高") if off > 0 else ("less", "偏低")
    return Words(
        f"Predicted beforehand: {three(expected)}×, {percent(abs(off))} {side[0]}"
        " than measured.",
        f"事先预测：{three(expected)} 倍，比实测{side[1]} {percent(abs(off))}。",
    )


def _waits(ladder: Ladder) -> Words | None:
    """That the code waits for its data loader, before and after."""
    before = ladder.baseline
    if (before.loader_s or 0.0) < _WAITS * before.step_s:
        return None
    waits, step = seconds(before.loader_s or 0.0), seconds(before.step_s)
    en = f"Of the {step} that a step took, {waits} were spent waiting for its data loader"
    zh = f"原始代码一步用时 {step}，其中 {waits} 在等待数据加载器"
    best = best_trial(ladder)
    after = best.measured if best is not None else None
    if after is not None:
        left, whole = seconds(after.loader_s or 0.0), seconds(after.step_s)
        en += f", after the changes {left} of {whole}"
        zh += f"，改动之后为 {whole} 中的 {left}"
    return Words(
        f"{en}; how fast it gives batches is not predicted.",
        f"{zh}；它给出批次的快慢不在预测之内。",
    )


def _other_pace(ladder: Ladder) -> Words | None:
    """Where the code as it is does not take what was predicted for it: gains are off, too.

    Nothing is predicted of a loader, so what a step waits for it is no error.
    """
    predicted, whole = predicted_step_s(ladder), ladder.baseline.step_s
    alone = whole - (ladder.baseline.loader_s or 0.0)
    if predicted is None or (alone <= predicted * _OFF and whole * _OFF >= predicted):
        return None
    longer = whole > predicted
    measured = alone if longer else whole
    times = three(max(measured / predicted, predicted / measured))
    side = ("less", "少") if longer else ("more", "多")
    beside = Words(" beside its loader", "（不含数据加载）") if measured < whole else Words("", "")
    why = _WRONG if {BENCHED, SAVED} & set(ladder.notes) else _ANOTHER_MACHINE
    return Words(
        f"The code as it was takes {seconds(measured)} a step{beside.en}, predicted were"
        f" {seconds(predicted)} ({times}× {side[0]}): {why.en}",
        f"原始代码一步用时 {seconds(measured)}{beside.zh}，预测为 {seconds(predicted)}（{side[1]}"
        f" {times} 倍）：{why.zh}",
    )


def _left_out(ladder: Ladder) -> tuple[Words, ...]:
    """How many trials the budget did not allow, and how to make them."""
    count = sum(t.outcome == "skipped" and t.purpose != "" for t in ladder.trials)
    if not count:
        return ()
    trials = "1 more trial" if count == 1 else f"{count} more trials"
    return (
        Words(
            f"There was no time for {trials}: give a larger --budget with --resume.",
            f"还有 {count} 次试验没有时间做：请加大 --budget，并加上 --resume。",
        ),
    )


def _troubles(ladder: Ladder) -> tuple[Words, ...]:
    """What broke, in one sentence."""
    broken = [t for t in failed(ladder) if t.outcome not in ("even", "slower")]
    if not broken:
        return ()
    en = "; ".join(f"{joined(t.added).en}: {OUTCOMES[t.outcome].en}" for t in broken)
    zh = "；".join(f"{joined(t.added).zh}：{OUTCOMES[t.outcome].zh}" for t in broken)
    return (Words(f"Refused: {en}.", f"已拒绝：{zh}。"),)


def _took(ladder: Ladder) -> Words:
    ran = sum(t.outcome != "skipped" and t.seconds > 0 for t in ladder.trials)
    trials = "1 real trial" if ran == 1 else f"{ran} real trials"
    span = duration(ladder.seconds)
    return Words(f"It took {span} and {trials}.", f"共用 {span}，{ran} 次真实试验。")


def _ladder_section(ladder: Ladder) -> Section | None:
    if not steps(ladder):
        return None
    return Section(Words("The ladder", "阶梯"), (step_bars(ladder), step_table(ladder)))


def _parity_section(ladder: Ladder) -> Section | None:
    parity = best_parity(ladder)
    if parity is None or not parity.compared:
        return None
    return Section(Words("Does it still compute the same?", "计算结果是否不变？"),
                   (parity_table(parity),))  # fmt: skip


def _failed_section(ladder: Ladder) -> Section | None:
    blocks: list[Block] = []
    if failed(ladder):
        blocks.append(failed_table(failed(ladder)))
    if untried(ladder):
        blocks.append(untried_table(untried(ladder)))
    if not blocks:
        return None
    return Section(Words("What not to do", "不该做的"), tuple(blocks))


def _trials_section(ladder: Ladder) -> Section | None:
    if not any(t.outcome != "skipped" for t in ladder.trials):
        return None
    return Section(Words("The evidence", "证据"), (trial_table(ladder),))


def _patch_section(ladder: Ladder) -> Section | None:
    if not ladder.patch:
        return None
    ran = [t for t in ladder.trials if t.purpose == "patch"]
    blocks: list[Block] = []
    if ran:
        blocks.append(_patch_ran(ran[-1]))
    parts = _patch_parts(ladder)
    if parts is not None:
        blocks.append(Paragraph(parts))
    lines = tuple(
        CodeLine(number, text, None, _tone(text))
        for number, text in enumerate(ladder.patch.splitlines(), start=1)
    )
    blocks.append(Code(Words("Changes of the source", "源码改动"), "diff", lines))
    return Section(Words("The patch", "补丁"), tuple(blocks))


def _patch_parts(ladder: Ladder) -> Words | None:
    """What of it is plain PyTorch, and what needs gpuscope when it runs."""
    from gpuscope.advice.patching import parts_of

    written, applied, helped = parts_of(ladder.patch)
    if not written and not applied:
        return None
    if not applied and not helped:
        return Words(
            "It is plain PyTorch: the patched source does not need gpuscope.",
            "补丁是纯 PyTorch 代码：打补丁后的源码不依赖 gpuscope。",
        )
    told = [
        (joined(tuple(n for n in written if n not in helped)), "Plain PyTorch", "纯 PyTorch"),
        (joined(helped), "With functions of gpuscope", "使用 gpuscope 的函数"),
        (joined(applied), "Made by gs.apply when it runs", "运行时由 gs.apply 实施"),
    ]
    en = " ".join(f"{start}: {names.en}." for names, start, _ in told if names.en)
    zh = "".join(f"{start}：{names.zh}。" for names, _, start in told if names.en)
    return Words(
        f"{en} So gpuscope must be installed where it runs.", f"{zh}因此运行环境须安装 gpuscope。"
    )


def _patch_ran(trial: Trial) -> Paragraph:
    if trial.outcome in ("kept", "even") and trial.speedup is not None:
        return Paragraph(
            Words(
                f"The patched source was run: {three(trial.speedup)}× the original's speed,"
                " and its results agree.",
                f"打补丁后的源码已运行：速度为原始的 {three(trial.speedup)} 倍，结果一致。",
            ),
            "key",
        )
    return Paragraph(trial.why, "doubt")


def _tone(line: str) -> Tone:
    if line.startswith("+") and not line.startswith("+++"):
        return "good"
    if line.startswith("-") and not line.startswith("---"):
        return "warning"
    return "plain"
