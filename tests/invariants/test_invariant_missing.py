"""A zero where nothing is known is found."""

from __future__ import annotations

from dataclasses import replace

from spoilt import found, names, sound, with_analysis, with_page, with_run


def test_a_sound_run_passes() -> None:
    assert found("missing", sound()) == []


def test_no_launch_call_of_many_kernels() -> None:
    launches = sound().run.analysis.launches
    assert launches is not None
    none = replace(launches, count=0)
    assert list(names("missing", with_analysis(launches=none))) == [
        "analysis.launches.count that is not known"
    ]


def test_zero_of_all_multiprocessors() -> None:
    use = sound().document["use"]
    series = [{**s, "values": [0.0]} if s["key"] == "sm" else s for s in use["series"]]
    assert len(found("missing", with_page("use", "series", value=series))) == 1


def test_no_energy_is_not_zero() -> None:
    assert len(found("missing", with_run(energy_j=0.0))) == 1
    assert found("missing", with_run(energy_j=None)) == []
