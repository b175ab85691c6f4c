"""Tables and bars of a ladder: its steps, what failed, what agrees, every trial."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from gpuscope.advice.results import Ladder, Measured, Outcome, Parity, Purpose, Trial
from gpuscope.explain.numbers import percent, seconds, three
from gpuscope.explain.types import Bar, Bars, Cell, Column, Part, Table, Words

__all__ = [
    "OUTCOMES", "best_parity", "best_trial", "duration", "failed", "failed_table", "joined",
    "objective_gain", "pace", "parity_table", "predicted_step_s", "quantity", "share_of",
    "step_bars", "step_table", "steps", "title_of", "trial_table", "untried", "untried_table",
]  # fmt: skip

OUTCOMES: dict[Outcome, Words] = {
    "kept": Words("faster", "更快"),
    "even": Words("no difference", "没有差别"),
    "slower": Words("slower", "更慢"),
    "parity": Words("other results", "结果不一致"),
    "crashed": Words("crashed", "崩溃"),
    "hung": Words("out of time", "超时"),
    "memory": Words("out of memory", "显存不足"),
    "impossible": Words("not possible here", "此处不可用"),
    "skipped": Words("not tried", "未试"),
}

_BROKEN = ("parity", "crashed", "hung", "memory", "impossible")

_PURPOSES: dict[Purpose, Words] = {
    "": Words("", ""),
    "jump": Words("the best guess, all at once", "最佳设想，一次全上"),
    "part": Words("a part, to find the culprit", "一部分，以找出原因"),
    "more": Words("one more", "再加一项"),
    "other": Words("little expected", "预计收效甚微"),
    "final": Words("original against best", "原始与最佳对比"),
    "step": Words("one step", "单步"),
    "without": Words("without one of them", "去掉其中一项"),
    "alone": Words("alone", "单独"),
    "patch": Words("the patched source", "打补丁后的源码"),
}

_VERDICTS = {
    "agrees": Words("agree", "一致"),
    "differs": Words("differ", "不一致"),
    "overflow": Words("overflow", "溢出"),
    "distribution": Words("agree in distribution", "分布一致"),
    "unchecked": Words("not checked", "未检查"),
}

_QUANTITIES = {
    "loss": "损失", "gradient norm": "梯度范数", "output": "输出", "result": "返回值",
    "update of the parameters": "参数更新量", "first step": "第一步", "later steps": "后续各步",
    "mean": "均值", "spread": "波动",
}  # fmt: skip


def quantity(what: str) -> Words:
    """A compared quantity, such as "loss, first step" or "mean loss"."""
    parts = [part.strip() for part in what.split(",")]
    return Words(what, "，".join(map(_quantity_zh, parts)))


def _quantity_zh(what: str) -> str:
    """One part of it; a mean is named by what it is of."""
    bare = what.removeprefix("mean ")
    found = _QUANTITIES.get(bare, bare)
    return found if bare == what else f"{found}均值"


def title_of(name: str) -> Words:
    """What a change is called; its name where it is not known any more."""
    from gpuscope.advice.registry import find
    from gpuscope.errors import UnknownNameError

    try:
        return find(name).title
    except UnknownNameError:
        return Words(name, name)


def joined(names: Sequence[str]) -> Words:
    """Titles of several changes in one line."""
    titles = [title_of(name) for name in names]
    return Words(", ".join(t.en for t in titles), "、".join(t.zh for t in titles))


def steps(ladder: Ladder) -> tuple[Trial, ...]:
    """Its rungs: each change of the best measured against those before it, in order.

    Without single steps (a small budget), the trial that went from the original to the best.
    """
    single = tuple(t for t in ladder.trials if t.purpose == "step" and t.outcome != "skipped")
    if single:
        return single
    kept = [t for t in ladder.trials if t.outcome == "kept" and t.purpose in
            ("jump", "part", "more", "other")]  # fmt: skip
    return tuple(t for t in kept if set(t.names) <= set(ladder.best))


def failed(ladder: Ladder) -> tuple[Trial, ...]:
    """What was really tried and not kept: single changes, each once, the last word on it; then
    sets that broke where it is not known which of their changes did it."""
    found: dict[str, Trial] = {}
    for trial in ladder.trials:
        if len(trial.added) == 1 and trial.added[0] not in ladder.best:
            bad = trial.outcome not in ("kept", "skipped")
            if bad or trial.added[0] not in found:
                found[trial.added[0]] = trial
    single = tuple(t for t in found.values() if t.outcome != "skipped")
    culprits = {t.added[0] for t in single}
    sets = tuple(
        t for t in ladder.trials
        if t.outcome in _BROKEN and len(t.added) > 1 and t.purpose != "patch"
        and not culprits & set(t.added)
    )  # fmt: skip
    return single + sets


def untried(ladder: Ladder) -> tuple[Trial, ...]:
    """Single changes that were only predicted."""
    judged = {t.added for t in ladder.trials if t.outcome != "skipped"}
    found = {
        t.added: t for t in ladder.trials
        if t.outcome == "skipped" and len(t.added) == 1 and t.added not in judged
        and t.added[0] not in ladder.best
    }  # fmt: skip
    return tuple(found.values())


def best_parity(ladder: Ladder) -> Parity | None:
    """How the best set's results compare with the original's; None where that was not checked."""
    same = [
        t for t in ladder.trials
        if set(t.names) == set(ladder.best) and t.parity is not None and t.purpose != "patch"
    ]  # fmt: skip
    return same[-1].parity if same else None


def cut_short(ladder: Ladder) -> bool:
    """Whether trials that something is expected of were left out, or the user stopped it.

    Those of purpose "other" are tried only because a prediction may be wrong.
    """
    left_out = (t for t in ladder.trials if t.outcome == "skipped" and t.purpose)
    return ladder.interrupted or any(t.purpose != "other" for t in left_out)


def best_trial(ladder: Ladder) -> Trial | None:
    """The last measurement of what is kept; None where there is none."""
    same = [
        t for t in ladder.trials
        if set(t.names) == set(ladder.best) and t.measured is not None and t.purpose != "patch"
    ]  # fmt: skip
    return same[-1] if same else None


def objective_gain(ladder: Ladder) -> float | None:
    """How many times better the best is by what was asked for; None where that is not known."""
    if ladder.objective in ("time", "cost"):
        return ladder.speedup
    last = best_trial(ladder)
    after = last.measured if last is not None else None
    if ladder.objective == "memory":
        old, new = ladder.baseline.peak_memory_bytes, after and after.peak_memory_bytes
        return old / new if old and new else None
    before_j, after_j = ladder.baseline.energy_j, after and after.energy_j
    return before_j / after_j if before_j and after_j else None


def pace(ladder: Ladder, measured: Measured) -> tuple[float, str]:
    """Work per second with its unit, or the step time where its work is not known."""
    if ladder.per_step and ladder.unit:
        return ladder.per_step / measured.step_s, f"{ladder.unit}/s"
    return measured.step_s, "s"


def predicted_step_s(ladder: Ladder) -> float | None:
    """The step of the code as it was, as it was predicted; None where nothing was.

    A forecast holds the step after its changes and the gain over the step before, for the same
    work, as everything that is tried does.
    """
    return next(
        (
            f.speedup * f.step_time_s for t in ladder.trials
            if (f := t.forecast) is not None and f.speedup and f.step_time_s
        ),
        None,
    )  # fmt: skip


def step_table(ladder: Ladder) -> Table:
    """Each rung: predicted and measured gain, the step after it, memory, results."""
    columns = (
        Column(Words("change", "改动")),
        Column(Words("predicted", "预测"), "ratio"),
        Column(Words("measured", "实测"), "ratio"),
        Column(Words("95 % interval", "95% 区间")),
        Column(Words("step", "步时间"), "s"),
        Column(Words("memory", "显存"), "bytes"),
        Column(Words("results", "结果")),
    )
    original: tuple[Cell, ...] = (
        Words("the code as it was", "原始代码"), "", "", "", ladder.baseline.step_s,
        ladder.baseline.reserved_memory_bytes, "",
    )  # fmt: skip
    rungs = steps(ladder)
    rows = [original, *(_step_row(ladder, trial) for trial in rungs)]
    marked = tuple(
        n for n, t in enumerate(rungs, start=1) if set(t.added) <= set(ladder.best) and t.added
    )
    note = Words(
        "Gains are over the rung above, from interleaved pairs of blocks; the predicted ones were"
        " made before any trial.",
        "收益相对于上一行，由交错成对的计时段得出；预测值在任何试验之前作出。",
    )
    return Table(Words("Step by step", "逐步"), columns, tuple(rows), marked, note)


def _step_row(ladder: Ladder, trial: Trial) -> tuple[Cell, ...]:
    name = joined(trial.added)
    if not set(trial.added) <= set(ladder.best):
        name = Words(f"{name.en} (withdrawn)", f"{name.zh}（已撤回）")
    measured = trial.measured
    return (
        Words(f"+ {name.en}", f"+ {name.zh}"), _predicted(trial), _gain(trial), _interval(trial),
        measured.step_s if measured else None,
        measured.reserved_memory_bytes if measured else None, _verdict(trial),
    )  # fmt: skip


def step_bars(ladder: Ladder) -> Bars:
    """The pace after each rung: work per second where known, else the step time."""
    value, unit = pace(ladder, ladder.baseline)
    bars = [
        Bar(
            Words("the code as it was", "原始代码"),
            (Part(Words("original", "原始"), value, "other"),),
        )
    ]
    for trial in steps(ladder):
        if trial.measured is None:
            continue
        value, _ = pace(ladder, trial.measured)
        good = set(trial.added) <= set(ladder.best)
        name = joined(trial.added)
        part = Part(Words("measured", "实测"), value, "good" if good else "bad")
        bars.append(Bar(Words(f"+ {name.en}", f"+ {name.zh}"), (part,)))
    title = Words("Step time after each change", "每项改动后的步时间")
    if unit != "s":
        title = Words(f"{_capital(ladder.unit)} per second after each change",
                      f"每项改动后的速度（{ladder.unit}/s）")  # fmt: skip
    return Bars(title, "s" if unit == "s" else "", tuple(bars))


def failed_table(trials: Sequence[Trial]) -> Table:
    """What was tried and not kept, with the reason."""
    columns = (
        Column(Words("change", "改动")),
        Column(Words("outcome", "结果")),
        Column(Words("predicted", "预测"), "ratio"),
        Column(Words("measured", "实测"), "ratio"),
        Column(Words("why", "原因")),
    )
    rows = tuple(
        (joined(t.added), OUTCOMES[t.outcome], _predicted(t), _gain(t), _some(t.why))
        for t in trials
    )
    return Table(Words("Tried, and not kept", "试过但未保留"), columns, rows)


def untried_table(trials: Sequence[Trial]) -> Table:
    """What was only predicted."""
    columns = (
        Column(Words("change", "改动")),
        Column(Words("predicted", "预测"), "ratio"),
        Column(Words("why", "原因")),
    )
    rows = tuple((joined(t.added), _predicted(t), _some(t.why)) for t in trials)
    return Table(Words("Not tried", "未试"), columns, rows)


def parity_table(parity: Parity) -> Table:
    """What was compared with the original, and how far it is off."""
    columns = (
        Column(Words("what", "比较内容")),
        Column(Words("largest difference", "最大差异")),
        Column(Words("allowed", "允许")),
        Column(Words("steps", "步数"), "count"),
    )
    rows = tuple(
        (
            quantity(c.what), share_of(c.largest), share_of(c.tolerance), c.steps,
        )
        for c in parity.compared
    )  # fmt: skip
    note = parity.note or Words(
        "Relative to the original code's own run, with the same seeds and inputs.",
        "相对于原始代码的运行，种子和输入相同。",
    )
    return Table(Words("Results against the original's", "与原始结果比较"), columns, rows, (), note)


def trial_table(ladder: Ladder) -> Table:
    """Every trial in order."""
    columns = (
        Column(Words("trial", "试验")),
        Column(Words("why it was made", "目的")),
        Column(Words("outcome", "结果")),
        Column(Words("predicted", "预测"), "ratio"),
        Column(Words("measured", "实测"), "ratio"),
        Column(Words("95 % interval", "95% 区间")),
        Column(Words("took", "用时"), "s"),
    )
    ran = [t for t in ladder.trials if t.outcome != "skipped" and not _repeats(t)]
    rows = tuple(
        (
            _what(t), _PURPOSES[t.purpose], OUTCOMES[t.outcome], _predicted(t), _gain(t),
            _interval(t), t.seconds,
        )
        for t in ran
    )  # fmt: skip
    return Table(Words("Every trial", "全部试验"), columns, rows)


def _repeats(trial: Trial) -> bool:
    """A step that an earlier trial had measured."""
    return trial.purpose == "step" and trial.seconds == 0.0


def _what(trial: Trial) -> Cell:
    if trial.added:
        start = ", ".join(trial.against)
        return f"{start} + {', '.join(trial.added)}" if start else ", ".join(trial.added)
    left_out = [n for n in trial.against if n not in trial.names]
    return Words(f"without {', '.join(left_out)}", f"去掉 {', '.join(left_out)}")


def _verdict(trial: Trial) -> Cell:
    return _VERDICTS[trial.parity.verdict] if trial.parity is not None else ""


def _predicted(trial: Trial) -> Cell:
    """The predicted gain; nothing where none was."""
    return trial.expected if trial.expected is not None else ""


def _gain(trial: Trial) -> Cell:
    """The measured gain; nothing where it did not come to a measurement."""
    return trial.speedup if trial.speedup is not None else ""


def _interval(trial: Trial) -> str:
    if trial.low is None or trial.high is None:
        return ""
    return f"{three(trial.low)}–{three(trial.high)}"


def share_of(value: float) -> str:
    """A relative difference; tiny ones by their power of ten."""
    if not isfinite(value):
        return f"{value}"
    return f"{value:.0e}" if 0 < value < 1e-4 else percent(value)


def _some(why: Words) -> Words | str:
    return why if why.en else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def duration(value_s: float) -> str:
    """Seconds of a search in words: "45 s", "12 min"."""
    return seconds(value_s) if value_s < 120 else f"{value_s / 60:.0f} min"
