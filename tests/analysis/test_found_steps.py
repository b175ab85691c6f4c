"""Steps of recordings that mark none: held against the marks of recordings that do."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpuscope.analysis.compare import compare
from gpuscope.analysis.found_steps import repeated, with_steps
from gpuscope.analysis.window import choose_window, marked_steps
from gpuscope.loading import load
from gpuscope.loading.trace_run import trace_run
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import Step, Timeline

TRACES = Path(__file__).parents[1] / "data" / "traces"


@cache
def recording(name: str) -> Timeline:
    return read_trace(TRACES / name / "rank-0.json.gz")


def lengths_ms(timeline: Timeline) -> list[float]:
    return [(s.end_ns - s.start_ns) * 1e-6 for s in marked_steps(timeline, 0)]


@pytest.mark.parametrize("name", ["h200/compute_bound", "h200/host_bound", "4xh200/fsdp"])
def test_the_optimizer_shows_the_steps_that_are_marked(name: str) -> None:
    marked = recording(name)
    found = with_steps(replace(marked, steps=()))
    assert {step.found for step in found.steps} == {"optimizer"}
    assert lengths_ms(found) == pytest.approx(lengths_ms(marked), rel=0.05)


def without_optimizer(timeline: Timeline) -> Timeline:
    names = tuple("" if "Optimizer" in name else name for name in timeline.names)
    return replace(timeline, names=names, steps=())


def test_without_an_optimizer_the_kernels_that_recur_show_them() -> None:
    marked = recording("h200/host_bound")
    found = with_steps(without_optimizer(marked))
    assert [step.found for step in found.steps] == ["kernels"] * 3
    assert np.mean(lengths_ms(found)) == pytest.approx(np.mean(lengths_ms(marked)), rel=0.05)


def test_a_recording_of_steps_says_how_long_one_takes() -> None:
    """It gave the length of the whole recording, three times as long."""
    marked = trace_run(recording("h200/host_bound"), name="marked")
    bare = trace_run(replace(recording("h200/host_bound"), steps=()), name="bare")
    assert bare.step_time_s == pytest.approx(marked.step_time_s, rel=0.05)
    assert bare.analysis.step_s == pytest.approx(marked.analysis.step_s, rel=0.05)
    ratio = compare(marked, bare).speedup
    assert ratio == pytest.approx(1, rel=0.05)


def test_marks_are_left_as_they_are() -> None:
    assert with_steps(recording("h200/host_bound")) is recording("h200/host_bound")


def test_equal_layers_are_no_steps() -> None:
    layer = list(range(1, 21))
    assert repeated(np.array([0, *layer * 12, 99])) is None
    assert repeated(np.array([0, *layer * 12, 99] * 3)) == 242
    assert repeated(np.array([0, *layer * 12, 99] * 3 + [0, *layer])) == 242
    assert repeated(np.array([1, 2] * 100)) is None


def test_a_step_is_not_held_against_a_whole_recording() -> None:
    """One forward pass of an unmarked recording: nothing repeats."""
    whole = replace(recording("4xh200/tensor_parallel_host_bound"), steps=())
    assert with_steps(whole) is whole
    one = trace_run(recording("4xh200/tensor_parallel_host_bound"), name="steps")
    found = compare(one, trace_run(whole, name="whole"))
    assert found.speedup is None
    assert "whole recording" in found.summary


def test_the_length_of_a_single_marked_step_holds_its_device_work() -> None:
    """Step time 112 ms beside a device that worked 129 ms, "99.6 %"."""
    timeline = recording("h200/compute_bound")
    first = timeline.steps[0]
    run = trace_run(replace(timeline, steps=(Step(first.start_ns, first.end_ns),)), name="one")
    window = choose_window(run.timeline, 0)
    assert window is not None
    assert run.step_time_s == pytest.approx(window.length_ns * 1e-9)
    assert run.step_time_s == pytest.approx(run.analysis.step_s)
    assert run.device_busy_s <= run.step_time_s


def test_marks_whose_launches_were_cut_off_are_no_steps(tmp_path: Path) -> None:
    """A file cut in the middle said 2.61 ms of steps that take 18.3, "87 %" of them at work."""
    raw = gzip.decompress((TRACES / "h200" / "compute_bound" / "rank-0.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(raw[: len(raw) // 2])
    run = load(path)
    assert run.timeline.steps == ()
    assert run.step_time_s > 18.3e-3
    assert run.device_busy_s <= run.step_time_s
    assert run.analysis.trust is not None
    assert not run.analysis.trust.can_conclude["steps"]
