"""DDP and FSDP2 around a model of one process: what ranks then send, hold, and learn."""

import socket

import pytest
import torch
from distributed_cases import collectives, ddp, job_case, moved
from torch import nn

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find, plan

WIDTH, BLOCKS = 512, 4
PARAMETERS = 2 * BLOCKS * WIDTH * WIDTH * 4
"""Bytes of all, in float32."""


class Block(nn.Module):
    """Two layers and what goes around them."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(2))

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def alone(training=True, width=WIDTH, device="cuda"):
    """A training of one process."""

    def build():
        torch.manual_seed(0)
        model = nn.Sequential(*(Block(width) for _ in range(BLOCKS))).to(device)
        optimizer = torch.optim.AdamW(model.parameters()) if training else None
        x = torch.randn(8, width, device=device)

        def step():
            loss = model(x).square().mean()
            if optimizer is not None:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            return loss

        return step

    return build


def test_ddp_sums_every_gradient_once():
    case = job_case(alone(), "ddp")
    assert moved(case, "allreduce") == PARAMETERS
    assert not collectives(case, "gather")


def test_fsdp_spreads_what_is_kept():
    plain = job_case(alone(), on="4xh200")
    shared = job_case(alone(), "fsdp", on="4xh200")
    kept = job_case(alone(), "fsdp-kept", on="4xh200")
    again, once = (len(collectives(each, "allgather")) for each in (shared, kept))
    assert once == BLOCKS
    assert again == 2 * BLOCKS  # gathered anew for the backward pass
    assert moved(shared, "reduce_scatter") == PARAMETERS * 5 // 4  # given, and a rank's quarter
    spread = plain.run.analysis.memory.at_peak["optimizer_state"]
    assert shared.run.analysis.memory.at_peak["optimizer_state"] == pytest.approx(
        spread / 4, rel=0.01
    )


def test_with_what_goes_inside():
    case = job_case(alone(), "fsdp", "bf16-autocast", "checkpoint", "fused-optimizer")
    assert len(collectives(case, "allgather")) == 2 * BLOCKS
    assert any("_fused_adam" in op.name for op in case.program.ops)


def test_where_it_fits():
    case = job_case(alone())
    for name in ("ddp", "fsdp", "fsdp-kept"):
        assert find(name).fits(case).applies
    assert "samples" in find("ddp").risk(case)
    for other in (job_case(alone(), on="h200"), job_case(alone(training=False)), job_case(ddp())):
        found = find("fsdp").fits(other)
        assert not found.applies
        assert not found.relevant


def test_only_one_at_a_time():
    with pytest.raises(Exception, match="cannot go together"):
        plan(["ddp", "fsdp"])


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_it_runs(name, monkeypatch):
    """On one rank it is the same training."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for key, value in (("RANK", 0), ("WORLD_SIZE", 1), ("MASTER_PORT", port)):
        monkeypatch.setenv(key, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    plain, changed = (_losses(names) for names in ((), (name,)))
    torch.testing.assert_close(changed, plain)


def _losses(names):
    live = Live(plan(names))
    try:
        step = live.wrap(alone(width=16, device="cpu"))()
        return torch.stack([step().detach() for _ in range(3)])
    finally:
        live.close()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
