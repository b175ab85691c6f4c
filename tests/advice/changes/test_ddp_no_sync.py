"""Accumulation with one reduction: found, made, the same gradients; a shorter step is refused."""

import pytest
import torch
import torch.distributed as dist
from distributed_cases import ddp, job_case, moved
from live_runs import results

from gpuscope.advice.registry import find
from gpuscope.errors import WorkloadError


def test_one_reduction_is_left_of_four():
    plain, once = job_case(ddp(4)), job_case(ddp(4), "ddp-no-sync")
    assert moved(plain, "allreduce") == 4 * moved(once, "allreduce") > 0
    fit = find("ddp-no-sync").fits(plain)
    assert fit.applies
    assert "4 times" in fit.why
    assert not find("ddp-no-sync").fits(once).applies
    assert not find("ddp-no-sync").fits(job_case(ddp(1))).applies


@pytest.fixture
def alone(tmp_path):
    """A real process group of one."""
    dist.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_same_losses_really_come(alone):
    torch.testing.assert_close(
        results(ddp(3, device="cpu"), "ddp-no-sync"), results(ddp(3, device="cpu"))
    )


def test_a_shorter_step_is_refused(alone):
    with pytest.raises(WorkloadError, match="2 micro-batches cannot follow one of 3"):
        results(ddp(3, counts=(3, 2), device="cpu"), "ddp-no-sync")
