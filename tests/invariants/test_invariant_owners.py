"""A job's energy and cost are those of all its ranks."""

from __future__ import annotations

from dataclasses import replace

from spoilt import found, names, sound, with_page

from gpuscope.invariants import Output
from gpuscope.run import JobPlace, RankResult


def _job(energy_j: float) -> Output:
    """Two equal ranks, said to take so much energy together."""
    output = sound()
    rank = RankResult(0, (0, 1), 1e-3, 1e-3, 0.0, 0.0, {}, 1, 1, True, 10.0)
    place = JobPlace(8, 8, "NVLink 4", "", 16.0)
    run = replace(output.run, rank_results=(rank,), place=place, world_size=2)
    page = with_page("figures", "job_energy_j", value=energy_j).page
    figures = page["runs"][0]["figures"]
    figures["devices"] = 2
    figures["usd_per_step"] = 16.0 * run.step_time_s / 3600
    figures["tokens_per_s_per_device"] = figures["tokens_per_s"] / 2
    energy = run.analysis.energy
    assert energy is not None
    half = replace(energy, cost_usd=figures["usd_per_step"] / 2)
    return replace(output, run=replace(run, analysis=replace(run.analysis, energy=half)), page=page)


def test_a_sound_run_passes() -> None:
    assert found("owners", sound()) == []
    assert found("owners", _job(20.0)) == []


def test_the_energy_of_one_rank_is_not_the_jobs() -> None:
    assert list(names("owners", _job(10.0))) == ["figures.job_energy_j and rank_results: energy_j"]
