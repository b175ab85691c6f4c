"""Work beyond the step, and curves of another window, are found."""

from __future__ import annotations

from dataclasses import replace

from spoilt import found, names, sound, with_analysis, with_page, with_run


def test_a_sound_run_passes() -> None:
    assert found("window", sound()) == []


def test_a_device_busy_for_longer_than_the_step() -> None:
    busy_s = sound().run.step_time_s * 1.15
    assert list(names("window", with_run(device_busy_s=busy_s))) == [
        "device_busy_s within the step"
    ]


def test_a_gain_beyond_the_step() -> None:
    first = replace(sound().run.analysis.findings[0], max_gain_s=1e3)
    assert len(found("window", with_analysis(findings=(first,)))) == 1


def test_memory_on_the_hosts_clock() -> None:
    """The host is done with a step before the device begins it."""
    curve = dict(sound().document["memory_curve"])
    early_ns = sound().document["use"]["start_ns"] - 1
    curve["time_ns"] = [early_ns, *curve["time_ns"][1:]]
    wrong = names("window", with_page("memory_curve", value=curve))
    assert list(wrong) == ["memory_curve within the step"]
