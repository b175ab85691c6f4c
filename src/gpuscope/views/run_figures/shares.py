"""Where the step's time goes: by what sets it, and by kernel family."""

from __future__ import annotations

from gpuscope.document import format as units
from gpuscope.document.blocks import Bar, Bars, Part, Role
from gpuscope.document.text import Text, verbatim
from gpuscope.run import Run
from gpuscope.views.palette import class_role, kind_role
from gpuscope.views.words import class_text, word_text

_MOST = 14


def classes(run: Run) -> Bars | None:
    """Return the step by what sets its time; the bars add up to the step."""
    rows = [(class_text(s.label), s.time_s, class_role(s.label)) for s in run.analysis.classes]
    title, step = Text("Where the time goes"), units.time(run.analysis.step_s)
    note = Text(
        "{run}: one step on {target} takes {step}; the bars add up to it.",
        run=run.name,
        target=run.target,
        step=step,
    )
    return _bars(title, note, rows, run)


def families(run: Run) -> Bars | None:
    """Return the device time by kernel family."""
    rows = [(word_text(s.label), s.time_s, kind_role(s.label)) for s in run.analysis.kinds]
    note = Text("Device time of a step; kernels on several streams may run at once.")
    return _bars(Text("Device time by kernel family"), note, rows, run)


def _bars(title: Text, note: Text, rows: list[tuple[Text, float, Role]], run: Run) -> Bars | None:
    shown = [row for row in rows if row[1] > 0]
    if not shown:
        return None
    step_s = run.analysis.step_s
    bars = [
        Bar(name, (Part(name, time_s, role),), percent(time_s, step_s))
        for name, time_s, role in shown[:_MOST]
    ]
    rest_s = sum(time_s for _, time_s, _ in shown[_MOST:])
    if rest_s:
        others = Text("{shown} others", shown=len(shown) - _MOST)
        bars.append(Bar(others, (Part(others, rest_s, "other"),), percent(rest_s, step_s)))
    return Bars(title, "s", tuple(bars), note=note)


def percent(time_s: float, step_s: float) -> Text | None:
    """Return a bar's part of the step, to stand behind it."""
    if step_s <= 0:
        return None
    share = units.share(time_s / step_s)
    return verbatim(share)
