"""The predicted step with a finding's advice taken is what predicting the changed program gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gpuscope as gs
from gpuscope.hardware import device
from gpuscope.outcomes import padded, simulated
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.timeline.recost import recost


@pytest.fixture(scope="module")
def run() -> gs.Run:
    options = gs.WorkloadOptions(task="train", batch=8, seq=256, layers=2)
    return gs.predict("gpt2", on="h200", options=options)


def _told(run: gs.Run, kind: str) -> gs.Finding:
    return next(found for found in run.analysis.findings if found.kind == kind)


def test_pointwise_work_is_compiled(run: gs.Run) -> None:
    assert run.program is not None
    compiled = recost(replace(run.program, compiled="default"), device("h200"))
    assert _told(run, "pointwise_bound").predicted_step_s == pytest.approx(compiled.step_time_s)
    assert compiled.step_time_s < run.step_time_s


def test_odd_sizes_are_padded(run: gs.Run) -> None:
    found = _told(run, "poor_shapes")
    assert run.program is not None
    changed = padded(run.program, found, run.timeline)
    assert changed is not None
    shapes = {size for op in changed.ops for spec in op.outputs for size in spec.shape}
    assert 50304 in shapes
    assert 50257 not in shapes
    assert found.predicted_step_s is not None
    assert found.predicted_step_s < run.step_time_s
    # No more than the bound says.
    assert found.max_gain_s is not None
    assert run.step_time_s - found.predicted_step_s <= found.max_gain_s


def test_what_no_single_change_does_stays_unknown(run: gs.Run) -> None:
    others = [f for f in run.analysis.findings if f.kind == "below_roofline"]
    assert all(found.predicted_step_s is None for found in others)


def test_gains_add_up_to_what_the_changes_save_one_upon_the_other(run: gs.Run) -> None:
    """Compiled code pads the odd product itself: its saving is not promised a second time."""
    assert run.program is not None
    changed = padded(run.program, _told(run, "poor_shapes"), run.timeline)
    assert changed is not None
    unwaited = replace(changed, ops=tuple(replace(op, sync="") for op in changed.ops))
    step_s = recost(replace(unwaited, compiled="default"), device("h200")).step_time_s
    simulated = [f for f in run.analysis.findings if f.predicted_step_s is not None]
    assert {f.kind for f in simulated} == {"poor_shapes", "pointwise_bound", "sync_bound"}
    promised_s = sum(f.max_gain_s or 0.0 for f in simulated)
    assert promised_s <= (run.step_time_s - step_s) * (1 + 1e-9)
    alone_s = sum(run.step_time_s - (f.predicted_step_s or 0.0) for f in simulated)
    assert promised_s < alone_s


def test_behind_a_late_host_shorter_kernels_gain_nothing() -> None:
    """One sequence of 64 tokens: the host's 2 ms set the step, whatever its products reach."""
    options = gs.WorkloadOptions(task="prefill", batch=1, seq=64, layers=2)
    found = gs.predict("gpt2", on="h200", options=options).analysis.findings
    assert found[0].kind == "host_bound"
    products = [f for f in found if f.kind in ("below_roofline", "poor_shapes", "compute_bound")]
    assert all(f.max_gain_s == pytest.approx(0.0, abs=1e-9) for f in products)


def test_a_job_of_equal_ranks_is_held_to_simulations_too() -> None:
    plan = ParallelOptions(fsdp="full")
    options = gs.WorkloadOptions(task="train", seq=512, layers=2, parallel=plan)
    job = gs.predict("llama-3.2-1b", on="8xh200", options=options)
    changed = [f for f in job.analysis.findings if f.predicted_step_s is not None]
    assert changed
    for found in changed:
        assert found.predicted_step_s is not None
        saved_s = job.step_time_s - found.predicted_step_s
        assert (found.max_gain_s or 0.0) <= max(0.0, saved_s) + 1e-12


def test_what_a_simulation_takes_from_one_finding_is_left_to_others() -> None:
    """Fusing was served first and gains less: the products of a job had nothing left of it."""
    plan = ParallelOptions(fsdp="full", microbatch=2)
    options = gs.WorkloadOptions(task="train", parallel=plan)
    job = gs.predict("llama-3.2-1b", on="8xh200", options=options)
    products = _told(job, "compute_bound")
    assert products.about is not None
    assert products.max_gain_s == pytest.approx(products.about.explains_s, rel=0.05)


def test_the_drawn_steps_are_the_promised_ones(run: gs.Run) -> None:
    drawn = simulated(run)
    found = run.analysis.findings
    wanted = [at for at, each in enumerate(found) if each.predicted_step_s is not None]
    assert [each.findings for each in drawn] == [(at,) for at in wanted]
    for each in drawn:
        promised = found[each.findings[0]].predicted_step_s
        assert each.step_time_s == pytest.approx(promised, rel=1e-9)
        (step,) = each.timeline.steps
        assert (step.end_ns - step.start_ns) * 1e-9 == pytest.approx(promised, abs=2e-9)


def test_a_recording_has_no_step_to_draw(run: gs.Run) -> None:
    assert simulated(replace(run, basis=None)) == ()
