"""Several runs in one figure, and a sweep as a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuscope.analysis.types import Analysis, Share
from gpuscope.explain.types import Axis, Bar, Bars, Block, Lines, Part, Role, Series, Words
from gpuscope.run import Run
from gpuscope.views.compare import distinct_names
from gpuscope.views.run_figures.roles import (
    class_role,
    class_words,
    data_words,
    kind_role,
    memory_role,
)
from gpuscope.views.sweep import field_label

_LEAST = 0.005


def beside(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return several runs by class, by kernel family, and their memory at the peak."""
    by_class = _stacked(
        runs, Words("Step time by class", "按类别的单步时间"), lambda a: a.classes, class_words,
        class_role,
    )  # fmt: skip
    by_kind = _stacked(
        runs, Words("Device time by kernel family", "按内核类别的设备时间"), lambda a: a.kinds,
        data_words, kind_role,
    )  # fmt: skip
    found = (by_class, by_kind, _memory(runs))
    return tuple(figure for figure in found if figure is not None)


def _stacked(
    runs: Sequence[Run], title: Words, rows: Callable[[Analysis], Sequence[Share]],
    name: Callable[[str], Words], role: Callable[[str], Role],
) -> Bars | None:  # fmt: skip
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
        parts.append(Part(Words("other", "其他"), sum(times.values()), "other"))
        bars.append(Bar(label, tuple(part for part in parts if part.value > 0)))
    return Bars(title, "s", tuple(bars)) if longest > 0 else None


def _labels(runs: Sequence[Run]) -> list[Words]:
    return [
        Words(en, zh)
        for en, zh in zip(distinct_names(runs, "en"), distinct_names(runs, "zh"), strict=True)
    ]


def _memory(runs: Sequence[Run]) -> Bars | None:
    bars = []
    for run, label in zip(runs, _labels(runs), strict=True):
        story = run.analysis.memory
        if story is None or not story.at_peak:
            return None
        parts = tuple(
            Part(data_words(category), float(nbytes), memory_role(category))
            for category, nbytes in story.at_peak.items()
            if nbytes > 0
        )
        bars.append(Bar(label, parts))
    return Bars(Words("Memory at the peak", "显存峰值的构成"), "bytes", tuple(bars))


def sweep(field: str, values: Sequence[float], runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return step time and peak memory against what was varied."""
    axis = Axis(Words(field_label(field, "en"), field_label(field, "zh")), "")
    x = tuple(map(float, values))
    time = Series(
        Words("step time", "单步时间"), x, tuple(run.step_time_s for run in runs), role="compute",
        low=tuple(run.step_time_interval_s[0] for run in runs),
        high=tuple(run.step_time_interval_s[1] for run in runs),
    )  # fmt: skip
    peaks = tuple(
        None if run.peak_memory_bytes is None else float(run.peak_memory_bytes) for run in runs
    )
    found: list[Block] = [
        Lines(
            Words("Step time", "单步时间"), axis, Axis(Words("step time", "单步时间"), "s"),
            (time,), note=Words("The band is the 80 % interval.", "阴影为 80 % 区间。"),
        )
    ]  # fmt: skip
    if any(peak is not None for peak in peaks):
        memory = Series(Words("peak memory", "显存峰值"), x, peaks, role="memory")
        found.append(
            Lines(
                Words("Peak memory", "显存峰值"), axis, Axis(Words("memory", "显存"), "bytes"),
                (memory,),
            )
        )  # fmt: skip
    return tuple(found)
