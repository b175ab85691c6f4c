"""A run's figures: they add up to what the run says, and leave out what it does not know."""

from __future__ import annotations

import dataclasses

import pytest
from run_builders import bare_run, gpt_run

import gpuscope as gs
from gpuscope.document.blocks import Bars, Lines
from gpuscope.views.run_figures.figures import (
    lanes,
    run_figures,
    runs_figures,
    sweep_figures,
    waves,
)

TRACE = "tests/data/traces/h200/compute_bound"


def titled(figures, title):
    return next(figure for figure in figures if figure.title == title)


def total(bar) -> float:
    return sum(part.value for part in bar.parts)


def test_a_prediction_has_every_figure() -> None:
    figures = run_figures(gpt_run())
    assert [figure.title for figure in figures] == [
        "Where the time goes",
        "From the best possible time to the step",
        "Device time by kernel family",
        "One step over time",
        "Roofline on NVIDIA H200 SXM 141GB",
        "Memory over the step",
        "Memory at the peak",
        "Device time by module",
        "Waves of the longest kernels",
    ]


def test_bars_add_up() -> None:
    run = gpt_run()
    figures = run_figures(run)
    step = sum(total(bar) for bar in titled(figures, "Where the time goes").bars)
    assert step == pytest.approx(run.analysis.step_s)
    peak = sum(total(bar) for bar in titled(figures, "Memory at the peak").bars)
    assert peak == run.peak_memory_bytes
    model = titled(figures, "Device time by module").bars[0]
    assert total(model) == pytest.approx(run.analysis.modules[0].time_s)


def test_lanes_are_as_long_as_the_step_and_as_busy_as_the_device() -> None:
    run = gpt_run()
    drawn = lanes(run)
    assert drawn is not None
    window = run.timeline.steps[0]
    for bar in drawn.bars:
        assert total(bar) == pytest.approx((window.end_ns - window.start_ns) * 1e-9, rel=1e-6)
        assert len(bar.parts) < 2500
    stream = next(bar for bar in drawn.bars if bar.label == "stream 0")
    by_family: dict[str, float] = {}
    for part in stream.parts:
        by_family[part.label] = by_family.get(part.label, 0.0) + part.value
    for share in run.analysis.kinds:
        if share.label in by_family:
            assert by_family[share.label] == pytest.approx(share.time_s, rel=1e-3)


def test_a_million_slots_are_not_needed() -> None:
    """The recording's lanes: waiting is told apart from work, and nothing is counted twice."""
    run = gs.load(TRACE)
    drawn = lanes(run)
    assert drawn is not None
    host = drawn.bars[0]
    assert {part.label for part in host.parts} <= {"host at work", "host waits", "idle"}
    lengths = {round(total(bar) * 1e9) for bar in drawn.bars}
    assert max(lengths) - min(lengths) <= 1


def test_the_roof_bends_where_the_device_does() -> None:
    run = gpt_run()
    chart = next(f for f in run_figures(run) if f.title.startswith("Roofline"))
    assert isinstance(chart, Lines)
    roof, *families = chart.series
    bandwidth = run.analysis.roofline.memory_bandwidth_bytes_per_s
    peak = chart.marks[0].y
    assert roof.x[1] == pytest.approx(peak / bandwidth)
    assert roof.y[1] == roof.y[2] == peak
    for series in families:
        for x, y in zip(series.x, series.y, strict=True):
            assert y <= min(peak, x * bandwidth) * 1.2


def test_waves_by_hand() -> None:
    run = gpt_run()
    task = dataclasses.replace(run.analysis.tasks[0], waves=2.25, grid=297, tail_loss=0.25)
    one = dataclasses.replace(run, analysis=dataclasses.replace(run.analysis, tasks=(task,)))
    drawn = waves(one)
    assert drawn is not None
    assert [part.value for part in drawn.bars[0].parts] == pytest.approx([2, 0.25, 0.75])
    whole = dataclasses.replace(task, waves=3.0, tail_loss=0.0)
    full = dataclasses.replace(run, analysis=dataclasses.replace(run.analysis, tasks=(whole,)))
    assert [part.value for part in waves(full).bars[0].parts] == [3]


def test_what_is_not_known_is_not_drawn() -> None:
    titles = {figure.title for figure in run_figures(bare_run())}
    account = "From the best possible time to the step"
    assert titles == {
        "Where the time goes",
        account,
        "Device time by kernel family",
        "One step over time",
    }


def test_several_runs_beside_each_other() -> None:
    a, b = gpt_run(), gpt_run(gpu="h100")
    figures = runs_figures([a, b])
    by_class = titled(figures, "Step time by class")
    assert isinstance(by_class, Bars)
    assert [total(bar) for bar in by_class.bars] == pytest.approx(
        [a.analysis.step_s, b.analysis.step_s]
    )
    assert runs_figures([a]) == run_figures(a)


def test_memory_of_several_only_where_all_know_it() -> None:
    titles = {figure.title for figure in runs_figures([gpt_run(), bare_run()])}
    assert "Memory at the peak" not in titles


def test_a_sweep_is_a_curve() -> None:
    a, b = gpt_run(), gpt_run(layers=2)
    time, memory = sweep_figures("layers", [4, 2], [a, b])
    assert time.series[0].y == (a.step_time_s, b.step_time_s)
    assert time.series[0].low == (a.step_time_interval_s[0], b.step_time_interval_s[0])
    assert memory.series[0].y == (a.peak_memory_bytes, b.peak_memory_bytes)
