"""Several runs in one figure, and a sweep as a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuscope.analysis.types import Analysis, Share
from gpuscope.document.blocks import Axis, Bar, Bars, Block, Lines, Part, Role, Series
from gpuscope.document.text import Text, joined, verbatim
from gpuscope.run import Run
from gpuscope.views.figures import distinct_names, marked, marks_said
from gpuscope.views.palette import class_role, kind_role, memory_role
from gpuscope.views.sweep import field_text
from gpuscope.views.words import class_text, word_text

_LEAST = 0.005


def beside(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return several runs by class, by kernel family, and their memory at the peak."""
    by_class = _stacked(
        runs, Text("Step time by class"), lambda a: a.classes, class_text, class_role
    )
    by_kind = _stacked(
        runs, Text("Device time by kernel family"), lambda a: a.kinds, word_text, kind_role
    )
    found = (by_class, by_kind, _memory(runs))
    return tuple(figure for figure in found if figure is not None)


def _stacked(
    runs: Sequence[Run],
    title: Text,
    rows: Callable[[Analysis], Sequence[Share]],
    name: Callable[[str], Text],
    role: Callable[[str], Role],
) -> Bars | None:
    """One bar a run; what is small in all of them is one part."""
    longest = max((run.analysis.step_s for run in runs), default=0.0)
    order: dict[str, float] = {}
    for run in runs:
        for share in rows(run.analysis):
            order[share.label] = max(order.get(share.label, 0.0), share.time_s)
    large = [label for label, time_s in order.items() if time_s >= _LEAST * longest]
    bars = []
    for run, label in zip(runs, _labels(runs), strict=True):
        times: dict[str, float] = {}
        for share in rows(run.analysis):
            times[share.label] = times.get(share.label, 0.0) + share.time_s
        parts = [Part(name(each), times.pop(each, 0.0), role(each)) for each in large]
        parts.append(Part(Text("other"), sum(times.values()), "other"))
        bars.append(Bar(label, tuple(part for part in parts if part.value > 0)))
    note = joined(marks_said(runs), " ") if marks_said(runs) else None
    return Bars(title, "s", tuple(bars), note=note) if longest > 0 else None


def _labels(runs: Sequence[Run]) -> list[Text]:
    return [
        verbatim(marked(name, run)) for name, run in zip(distinct_names(runs), runs, strict=True)
    ]


def _memory(runs: Sequence[Run]) -> Bars | None:
    bars = []
    for run, label in zip(runs, _labels(runs), strict=True):
        story = run.analysis.memory
        if story is None or not story.at_peak:
            return None
        parts = tuple(
            Part(word_text(category), float(nbytes), memory_role(category))
            for category, nbytes in story.at_peak.items()
            if nbytes > 0
        )
        bars.append(Bar(label, parts))
    return Bars(Text("Memory at the peak"), "bytes", tuple(bars))


def sweep(field: str, values: Sequence[float], runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return step time and peak memory against what was varied."""
    axis = Axis(field_text(field), "")
    x = tuple(map(float, values))
    time = Series(
        Text("step time"),
        x,
        tuple(run.step_time_s for run in runs),
        role="compute",
        low=tuple(run.step_time_interval_s[0] for run in runs),
        high=tuple(run.step_time_interval_s[1] for run in runs),
    )
    peaks = tuple(
        None if run.peak_memory_bytes is None else float(run.peak_memory_bytes) for run in runs
    )
    found: list[Block] = [
        Lines(
            Text("Step time"),
            axis,
            Axis(Text("step time"), "s"),
            (time,),
            note=Text("The band is the 80 % interval."),
        )
    ]
    if any(peak is not None for peak in peaks):
        memory = Series(Text("peak memory"), x, peaks, role="memory")
        found.append(Lines(Text("Peak memory"), axis, Axis(Text("memory"), "bytes"), (memory,)))
    return tuple(found)
