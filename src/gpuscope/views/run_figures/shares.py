"""Where the step's time goes: by what sets it, and by kernel family."""

from __future__ import annotations

from gpuscope.explain.types import Bar, Bars, Part, Role, Words
from gpuscope.run import Run
from gpuscope.views import units
from gpuscope.views.run_figures.roles import class_role, class_words, data_words, kind_role

_MOST = 14


def classes(run: Run) -> Bars | None:
    """Return the step by what sets its time; the bars add up to the step."""
    rows = [(class_words(s.label), s.time_s, class_role(s.label)) for s in run.analysis.classes]
    title, step = Words("Where the time goes", "时间去向"), units.time(run.analysis.step_s)
    note = Words(
        f"{run.name}: one step on {run.target} takes {step}; the bars add up to it.",
        f"{run.name}：在 {run.target} 上，一步耗时 {step}；各条之和即为一步。",
    )
    return _bars(title, note, rows, run)


def families(run: Run) -> Bars | None:
    """Return the device time by kernel family."""
    rows = [(data_words(s.label), s.time_s, kind_role(s.label)) for s in run.analysis.kinds]
    note = Words(
        "Device time of a step; kernels on several streams may run at once.",
        "一步内的设备时间；不同流上的内核可能同时执行。",
    )
    return _bars(Words("Device time by kernel family", "按内核类别的设备时间"), note, rows, run)


def _bars(
    title: Words, note: Words, rows: list[tuple[Words, float, Role]], run: Run
) -> Bars | None:
    shown = [row for row in rows if row[1] > 0]
    if not shown:
        return None
    step_s = run.analysis.step_s
    bars = [
        Bar(name, (Part(name, time_s, role),), _percent(time_s, step_s))
        for name, time_s, role in shown[:_MOST]
    ]
    rest_s = sum(time_s for _, time_s, _ in shown[_MOST:])
    if rest_s:
        others = Words(f"{len(shown) - _MOST} others", f"另外 {len(shown) - _MOST} 项")
        bars.append(Bar(others, (Part(others, rest_s, "other"),), _percent(rest_s, step_s)))
    return Bars(title, "s", tuple(bars), note=note)


def _percent(time_s: float, step_s: float) -> Words | None:
    if step_s <= 0:
        return None
    share = units.percent(time_s / step_s)
    return Words(share, share)
