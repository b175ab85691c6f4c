"""A quantity that is said twice with two values is found."""

from __future__ import annotations

from dataclasses import replace

from spoilt import found, names, sound, with_page, with_run


def test_a_sound_run_passes() -> None:
    assert found("agreement", sound()) == []


def test_a_step_that_is_not_the_analysis_step() -> None:
    wrong = names("agreement", with_run(step_time_s=sound().run.step_time_s * 1.001))
    assert "analysis.step_s and step_time_s" in wrong
    assert "step_time_s and JSON" in wrong


def test_energy_that_differs_from_the_parts() -> None:
    energy_j = sound().run.energy_j
    assert energy_j is not None
    assert "analysis.energy.total_j and energy_j" in names(
        "agreement", with_run(energy_j=energy_j * 1.16)
    )


def test_a_figure_that_a_screen_lacks() -> None:
    output = replace(sound(), screens={**sound().screens, "zh": "…"})
    wrong = found("agreement", output)
    assert {str(v.found) for v in wrong} == {"not there"}
    assert all("(zh)" in v.what for v in wrong)


def test_what_if_starts_from_the_run() -> None:
    """A pipeline's "What if" once said 5.65 ms of a step of 2.19 s."""
    step_s = sound().run.step_time_s
    page = dict(sound().page)
    page["what_if"] = [_bars(step_s), _bars(step_s / 388)]
    wrong = found("agreement", replace(sound(), page=page))
    assert [str(v.what) for v in wrong] == [
        "what_if: now and step_time_s",
        "what_if: devices and step_time_s",
    ]


def _bars(time_s: float) -> dict[str, object]:
    parts = [{"label": {"en": "step"}, "value": time_s, "role": "tensor"}]
    return {"block": "bars", "unit": "s", "limit": time_s, "bars": [{"label": "H", "parts": parts}]}


def test_the_page_shows_the_runs_own_figures() -> None:
    assert "device_busy_s and JSON" in names("agreement", with_page("device_busy_s", value=1.0))
