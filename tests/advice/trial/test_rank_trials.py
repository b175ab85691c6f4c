"""A distributed workload: one process a rank, told the same at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.advice.results import Limits, Target
from gpuscope.advice.trial import Trials

pytestmark = pytest.mark.slow

BUILD = """
import os
import torch
import torch.distributed as dist

torch.set_num_threads(1)


def build():
    dist.init_process_group("gloo")
    assert dist.get_world_size() == 2
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step():
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()

    return step
"""


def test_two_ranks(tmp_path: Path) -> None:
    path = tmp_path / "ddp.py"
    path.write_text(BUILD)
    target = Target("build", f"{path}:build")
    with Trials(target, Limits(120.0), device="cpu", processes=2) as trials:
        measured = trials.baseline()
        assert trials.parity(()).verdict == "agrees"
    assert measured.step_s > 0
