"""A job's document: what is written is read back, equal ranks and places included."""

from __future__ import annotations

import pytest

from gpuscope import api
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.run import Run
from gpuscope.run.document import run_document
from gpuscope.run.figures import figures
from gpuscope.run.reader import read_run


def small_job(**wishes: int) -> Run:
    options = WorkloadOptions(
        task="train",
        layers=2,
        seq=128,
        parallel=ParallelOptions(**wishes),  # type: ignore[arg-type]
    )
    return api.predict("llama-3.2-1b", "16xh200", options=options)


def test_a_job_comes_back_and_its_figures_are_those_of_all_devices() -> None:
    run = small_job(tp=2, pp=2, global_batch=8)
    back = read_run(run_document(run))
    assert back.rank_results == run.rank_results
    assert back.place == run.place
    assert back.analysis.job == run.analysis.job
    assert figures(back) == figures(run)

    shown = figures(run)
    assert shown.devices == 16
    total_j = sum((r.energy_j or 0.0) * len(r.members) for r in run.rank_results)
    assert shown.job_energy_j == total_j > (run.energy_j or 0.0)
    assert run.place is not None
    hour = run.place.price_usd_per_hour
    assert hour is not None
    assert shown.usd_per_step == hour * run.step_time_s / 3600
    assert shown.tokens_per_s is not None
    assert shown.tokens_per_s_per_device == shown.tokens_per_s / 16

    story, used = run.analysis.job, run.analysis.utilisation
    assert story is not None
    assert used is not None
    # Two ways to the same figure: the first rank's FLOPs as its own analysis counts them.
    assert story.ranks[0].model_flops == pytest.approx(used.model_flops)
    assert story.ranks[0].hardware_flops == pytest.approx(used.hardware_flops)
    assert used.mfu is not None
    assert shown.mfu == pytest.approx(used.mfu * story.mean_model_flops / used.model_flops)
    assert story.mesh == (("pp", 2), ("dp", 4), ("tp", 2))
    assert {part.kind for part in story.parts} >= {"compute", "bubble"}
    kinds = {finding.kind for finding in run.analysis.findings}
    assert "wait_for_rank" not in kinds
    assert "pipeline_bubble" in kinds
