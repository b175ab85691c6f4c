"""Counts that differ, and a longest gap beyond all gaps, are found."""

from __future__ import annotations

from dataclasses import replace

from spoilt import found, names, sound, with_analysis

from gpuscope.analysis.idle_spots import IdleSpot


def test_a_sound_run_passes() -> None:
    assert found("counts", sound()) == []


def test_launches_of_half_a_step() -> None:
    launches = sound().run.analysis.launches
    assert launches is not None
    half = replace(launches, count=launches.count // 2)
    assert "analysis.launches.count and analysis.kinds: count" in names(
        "counts", with_analysis(launches=half)
    )


def test_gaps_of_a_microsecond_do_not_make_milliseconds() -> None:
    """431 gaps of at most 1 us were said to be 4.71 ms: waiting by chance was among them."""
    spot = IdleSpot("launch gap", "", "", "", 4.71e-3, 431, 0, 1e-6)
    wrong = names("counts", with_analysis(idle_spots=(spot,)))
    assert "analysis.idle_spots: launch gap: time_s and count, longest_s" in wrong


def test_the_longest_gap_is_one_of_the_gaps() -> None:
    spot = IdleSpot("launch gap", "", "", "", 1e-6, 1, 0, 10.0)
    assert len(found("counts", with_analysis(idle_spots=(spot,)))) == 2
