"""Whole scripts: paused between their steps, stopped before they write."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.advice.results import Limits, Target
from gpuscope.advice.trial import Trials
from gpuscope.errors import WorkloadError

pytestmark = pytest.mark.slow

OWN = (str(Path(__file__).parent / "broken_changes.py"),)

SCRIPT = """
import os, sys
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(32, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for number in range(int(sys.argv[1])):
    if os.environ.get("USELESS_WORK") != "0":
        held = torch.ones(256, 256)
        for _ in range(12):
            held = held @ held * 1e-3
    optimizer.zero_grad()
    model(torch.randn(16, 32, device="cuda")).square().mean().backward()
    optimizer.step()
    if number == 2 and "write" in sys.argv:
        open("/gpuscope-never-written", "w")
print("the end", flush=True)
open("/gpuscope-never-written", "w")
"""


def trials(folder: Path, *arguments: str) -> Trials:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    target = Target("script", str(path), arguments=arguments)
    return Trials(target, Limits(120.0), device="cpu", own_changes=OWN)


def test_scripts_are_timed_in_turn_and_never_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuscope.advice.trial.pairs.MOST_PAIRS", 8)  # many times as fast
    with trials(tmp_path, "1000000") as found:
        trial = found.contest((), ("lighter-step",))
    assert trial.outcome == "kept", trial.why
    assert trial.parity is not None
    assert trial.parity.verdict == "agrees"


def test_a_script_that_writes_is_refused_before_it_does(tmp_path: Path) -> None:
    refused = pytest.raises(WorkloadError, match="write /gpuscope-never-written")
    with trials(tmp_path, "1000000", "write") as found, refused as caught:
        found.baseline()
    assert "train.py" in caught.value.what
    assert "line 17" in caught.value.what
    assert "--allow-writes" in caught.value.next_step


def test_a_script_that_ends_too_early_is_told(tmp_path: Path) -> None:
    with trials(tmp_path, "2") as found, pytest.raises(WorkloadError):
        found.baseline()
