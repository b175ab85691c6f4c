"""A finding that promises more than its cause takes, or a time twice, is found."""

from __future__ import annotations

from spoilt import found, names, sound, with_analysis

from gpuscope.analysis.types import Finding


def test_a_sound_run_passes() -> None:
    assert found("gains", sound()) == []


def test_no_more_than_the_time_of_the_cause() -> None:
    taken_s = next(s.time_s for s in sound().run.analysis.classes if s.label == "bandwidth-bound")
    finding = Finding("bandwidth_bound", "", "", taken_s * 1.01)
    assert list(names("gains", with_analysis(findings=(finding,)))) == [
        "the gain of analysis.findings: bandwidth_bound"
    ]


def test_the_same_copies_are_not_promised_twice() -> None:
    step_s = sound().run.analysis.step_s
    each = Finding("small_kernels", "", "", step_s * 0.6)
    assert list(names("gains", with_analysis(findings=(each, each)))) == [
        "what all findings promise together"
    ]


def test_no_more_than_its_simulation_bears_out() -> None:
    """GPT-2's page promised 31.5 ms beside a compiled step that saves less of it."""
    step_s = sound().run.analysis.step_s
    finding = Finding("pointwise_bound", "", "", step_s * 0.5, predicted_step_s=step_s * 0.6)
    assert list(names("gains", with_analysis(findings=(finding,)))) == [
        "analysis.findings: pointwise_bound, beside its simulation"
    ]
