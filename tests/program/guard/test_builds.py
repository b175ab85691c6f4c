"""A function in a file that is named leaves nothing behind either; one that is given does."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.advice.forecast.batch import advise_batch
from gpuscope.advice.forecast.changed_programs import ChangedPrograms
from gpuscope.advice.results import Limits, Target
from gpuscope.advice.trial import Trials
from gpuscope.api import resolve_target
from gpuscope.errors import InputFileError, WorkloadError
from gpuscope.program.types import Op
from gpuscope.program.workload import WorkloadOptions, resolve

BUILD = """
import json.tool, os, wave
import torch
from pathlib import Path

os.remove("gone.txt")
Path("at_import").mkdir()

def build(batch_size=16):
    assert not os.path.exists("gone.txt") and os.path.isdir("at_import")
    print("building")
    Path("in_build.txt").write_text("x")
    with open("log.txt", "a") as file:
        file.write("more\\n")
    assert Path("log.txt").read_text() == "before\\nmore\\n"
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(batch_size, 64, device="cuda")

    def step():
        Path("in_step.txt").write_text("x")
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "training.py").write_text(BUILD)
    (tmp_path / "gone.txt").write_text("before\n")
    (tmp_path / "log.txt").write_text("before\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(folder)): path.read_text() for path in found}


@pytest.mark.parametrize("overlay", [True, False])
def test_a_prediction_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], overlay: bool
) -> None:
    if not overlay:
        monkeypatch.setenv("GPUSCOPE_NO_OVERLAY", "1")
    before = files(folder)
    programs = [gs.capture("training.py:build") for _ in range(2)]
    assert files(folder) == before
    assert programs[0].ops == programs[1].ops  # libraries are there by then
    assert "training" not in sys.modules
    assert capfd.readouterr().out == ""  # where results stand
    note = str(programs[0].assumptions[-1])
    if overlay and "Your code ran on a private copy" not in note:
        pytest.skip(note)
    assert ("No private copy of the files could be made here" in note) != overlay


def test_advice_leaves_nothing(folder: Path) -> None:
    """Neither the workload as it stands nor with changes made to it, nor with other batches."""
    before = files(folder)
    programs = ChangedPrograms("training.py:build", resolve_target("h200"))
    plain, changed = programs.of(), programs.of(("bf16-autocast",))
    assert plain != changed
    assert programs.seen is not None
    assert (programs.seen.file, programs.seen.function) == (str(folder / "training.py"), "build")
    assert programs.seen.optimizers
    batches = advise_batch("training.py:build", "h200").points
    assert len({point.peak_memory_bytes for point in batches}) == len(batches) > 1
    assert files(folder) == before


def _work(op: Op) -> Op:
    """Without the Python between operators: PyTorch asks more in a process that did much."""
    return replace(op, python_calls=0, python_instructions=0)


def test_it_is_the_same_as_the_function_itself(folder: Path) -> None:
    there = gs.capture("training.py:build", options=WorkloadOptions(batch=32))
    here = gs.capture(resolve("training.py:build", WorkloadOptions(batch=32)).build)
    assert [_work(op) for op in there.ops] == [_work(op) for op in here.ops]
    # A function that is given runs where it was given, and what it writes stays.
    assert (folder / "in_step.txt").is_file()
    assert not (folder / "gone.txt").exists()
    sys.modules.pop("training")


def test_writes_may_be_real(folder: Path) -> None:
    gs.capture("training.py:build", options=WorkloadOptions(allow_writes=True))
    assert (folder / "in_build.txt").is_file()
    assert not (folder / "gone.txt").exists()


def test_what_fails_is_told_as_ever(folder: Path) -> None:
    (folder / "training.py").write_text("import os\nos.makedirs('made')\nraise KeyError('lr')\n")
    with pytest.raises(WorkloadError) as caught:
        gs.capture("training.py:build")
    assert caught.value.what == "Importing training.py raised KeyError (line 3)."
    (folder / "training.py").write_text("def build():\n    return {}['lr']\n")
    with pytest.raises(WorkloadError, match=r"raised KeyError \(line 2 of .*training\.py\)"):
        gs.capture("training.py:build")
    with pytest.raises(WorkloadError, match="has no function 'other'"):
        gs.capture("training.py:other")
    with pytest.raises(InputFileError, match=r"There is no file nothing\.py"):
        gs.capture("nothing.py:build")
    assert not (folder / "made").exists()


@pytest.mark.slow
def test_a_trial_leaves_nothing(folder: Path) -> None:
    before = files(folder)
    target = Target("build", "training.py:build", {})
    with Trials(target, Limits(120.0), device="cpu") as found:
        assert found.baseline().steps > 0
    assert files(folder) == before
