"""A distributed workload: one process a rank, told the same at the same time."""

from __future__ import annotations

import subprocess
import sys
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


WRITING = BUILD.replace(
    "    model = torch.nn.parallel",
    """    rank, here = dist.get_rank(), HERE
    os.system(f"echo {rank} > {here}/from_shell_{rank}; rm -f {here}/kept.txt")
    dist.barrier()
    assert sorted(os.listdir(here)) == EXPECTED
    model = torch.nn.parallel""",
)


def test_ranks_share_one_private_copy(tmp_path: Path) -> None:
    """What one rank writes the others see, and nothing of it is left; also past Python's own
    functions, which the hook alone does not see."""
    if enter_in_a_child() != "overlay":
        pytest.skip("the kernel allows no copy here at all")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was")
    path = tmp_path / "ddp.py"
    expected = ["from_shell_0", "from_shell_1"]
    path.write_text(WRITING.replace("HERE", repr(str(folder))).replace("EXPECTED", repr(expected)))
    with Trials(Target("build", f"{path}:build"), Limits(120.0), device="cpu", processes=2) as on:
        on.baseline()
    assert [each.name for each in folder.iterdir()] == ["kept.txt"]
    assert (folder / "kept.txt").read_text() == "as it was"


def enter_in_a_child() -> str:
    """Which way this machine allows."""
    code = "from gpuscope.program.guard import enter; print(enter('x', '/', network=True).way)"
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
