"""Training on several devices without a plan is data parallel, with its gradient exchange."""

from __future__ import annotations

import pytest

from gpuscope import api
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.world import RankPrograms

TINY = WorkloadOptions(task="train", layers=1, batch=1, seq=64)


def _reduced_bytes(found: object) -> int:
    assert isinstance(found, RankPrograms)
    (program,) = found.programs  # all ranks do the same
    ops = [op for op in program.ops if op.name == "c10d::allreduce_" and op.phase == "backward"]
    return sum(op.inputs[0].nbytes for op in ops)


@pytest.mark.parametrize(
    ("model", "options"), [("gpt2", TINY), ("resnet18", WorkloadOptions(task="train", batch=1))]
)
def test_gradients_of_all_parameters_are_summed(model: str, options: WorkloadOptions) -> None:
    alone = api.capture_job(model, api.resolve_target("h200"), options)
    job = api.capture_job(model, api.resolve_target("8xh200"), options)
    assert isinstance(job, RankPrograms)
    program = job.programs[0]
    assert job.world_size == 8
    assert _reduced_bytes(job) == 4 * program.parameters  # float32 under autocast
    assert program.parameters == alone.parameters
    assert program.samples == 8 * alone.samples
    assert "data parallel over 8" in program.name
    assert any("--fsdp" in said for said in program.assumptions)


def test_a_step_of_eight_is_not_a_step_of_one() -> None:
    one, eight = (api.predict("gpt2", on, options=TINY) for on in ("h200", "8xh200"))
    assert eight.step_time_s > one.step_time_s
    assert eight.rank_results[0].communication_s > 0


def test_what_does_not_train_runs_as_copies() -> None:
    options = WorkloadOptions(task="decode", layers=1)
    found = api.capture_job("gpt2", api.resolve_target("8xh200"), options)
    assert not isinstance(found, RankPrograms)
