"""Whole scripts: paused between their steps, and what they write is gone."""

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
        made = os.path.join(os.path.dirname(__file__), "checkpoints")
        os.makedirs(made, exist_ok="again" in sys.argv)
        torch.save(model.state_dict(), os.path.join(made, "2"))
"""


def trials(folder: Path, *arguments: str, writes: bool = False) -> Trials:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    target = Target("script", str(path), arguments=arguments)
    limits = Limits(120.0)
    return Trials(target, limits, device="cpu", own_changes=OWN, allow_writes=writes)


def test_scripts_are_timed_in_turn_and_never_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuscope.advice.trial.pairs.MOST_PAIRS", 8)  # many times as fast
    with trials(tmp_path, "1000000") as found:
        trial = found.contest((), ("lighter-step",))
    assert trial.outcome == "kept", trial.why
    assert trial.parity is not None
    assert trial.parity.verdict == "agrees"


@pytest.mark.parametrize("overlay", [True, False])
def test_a_script_that_writes_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlay: bool
) -> None:
    if not overlay:
        monkeypatch.setenv("GPUSCOPE_NO_OVERLAY", "1")
    with trials(tmp_path, "1000000", "write") as found:
        assert found.baseline().steps > 0
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_script_may_be_let_write(tmp_path: Path) -> None:
    with trials(tmp_path, "1000000", "write", "again", writes=True) as found:
        found.baseline()
    assert (tmp_path / "checkpoints" / "2").stat().st_size > 0


def test_a_script_that_ends_too_early_is_told(tmp_path: Path) -> None:
    with trials(tmp_path, "2") as found, pytest.raises(WorkloadError):
        found.baseline()


LOADED = """
import os, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
data = TensorDataset(torch.randn(96, 32))
model = torch.nn.Linear(32, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(2):
    for (batch,) in DataLoader(data, batch_size=16):
        if os.environ.get("USELESS_WORK") != "0":
            held = torch.ones(256, 256)
            for _ in range(12):
                held = held @ held * 1e-3
        optimizer.zero_grad()
        model(batch.cuda()).square().mean().backward()
        optimizer.step()
    for (batch,) in DataLoader(data, batch_size=48):
        model.eval()
    model.train()
torch.save(model.state_dict(), os.path.join(os.path.dirname(__file__), "last.pt"))
"""
"""Twelve steps in all, then it writes: fewer than any trial needs."""


def test_a_loader_with_too_few_batches_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuscope.advice.trial.pairs.MOST_PAIRS", 8)
    path = tmp_path / "train.py"
    path.write_text(LOADED)
    said: list[str] = []
    target = Target("script", str(path))
    with Trials(
        target, Limits(120.0), device="cpu", own_changes=OWN, say=lambda text: said.append(text)
    ) as found:
        before = found.baseline()
        trial = found.contest((), ("lighter-step",))
    assert before.steps > 12
    assert [text for text in said if "begins again" in text] == [
        "The script is too short: its loader begins again …"
    ]
    assert trial.outcome == "kept", trial.why
    assert trial.parity is not None
    assert trial.parity.verdict == "agrees"
    assert "ran out after 6 batches and began again" in trial.why


def test_a_script_that_is_too_short_is_told_what_to_raise(tmp_path: Path) -> None:
    """Its steps come from a range: no loader could begin again."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    short = pytest.raises(WorkloadError, match="too short: it ended after 9 steps")
    target = Target("script", str(path), arguments=("9",))
    with Trials(target, Limits(120.0), device="cpu") as found, short as caught:
        found.baseline()
    assert "Raise its number of steps or epochs" in caught.value.next_step
