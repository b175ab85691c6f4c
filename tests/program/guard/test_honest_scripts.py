"""Scripts that write as training scripts do run through, read what they wrote, leave nothing."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.errors import WorkloadError
from gpuscope.program.guard import elsewhere
from gpuscope.program.workload import WorkloadOptions

SCRIPT = """
import csv, json, logging, os, pathlib, queue, shutil, sqlite3, subprocess, sys, tempfile, threading
import torch
from torch import nn

os.makedirs("checkpoints")
os.makedirs(os.path.join("runs", "one"), exist_ok=True)
logging.basicConfig(filename="train.log", level="INFO", force=True)
logging.info("begins")
with open("metrics.csv", "w", newline="") as file:
    csv.writer(file).writerow(["step", "loss"])

events = queue.Queue()
def write_events():  # as a writer of TensorBoard's does
    with open("runs/one/events", "ab") as file:
        while (event := events.get()) is not None:
            file.write(event)
            file.flush()
writer = threading.Thread(target=write_events, daemon=True)
writer.start()

model = nn.Linear(64, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def save(name):
    torch.save({"step": name, "list": [1, 2]}, "checkpoints/last.tmp")
    if "real" in sys.argv:
        pathlib.Path("checkpoints/last.tmp").touch()
    os.replace("checkpoints/last.tmp", f"checkpoints/{name}.pt")

torch.save({"model": model.state_dict()}, "checkpoints/weights.tmp")
if "real" in sys.argv:
    pathlib.Path("checkpoints/weights.tmp").touch()
os.rename("checkpoints/weights.tmp", "checkpoints/weights.pt")
save("0")
if "real" not in sys.argv:  # there a capture saves nothing: it has no values
    assert torch.load("checkpoints/0.pt")["step"] == "0"
old = pathlib.Path("old")
(old / "kept.txt").write_text("changed")
with open(old / "log.txt", "a") as file:
    file.write("more\\n")
assert (old / "log.txt").read_text() == "before\\nmore\\n"
shutil.rmtree("gone")
assert not os.path.exists("gone") and "gone" not in os.listdir()
assert sorted(os.listdir("old")) == ["kept.txt", "log.txt"]
assert sorted(p.name for p in pathlib.Path(".").glob("check*/*.pt")) == ["0.pt", "weights.pt"]
with sqlite3.connect("trials.db") as database:
    database.execute("create table t (x)")
    assert database.execute("select count(*) from t").fetchone() == (0,)
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "x").write_text("x")
    shutil.copy(os.path.join(folder, "x"), "checkpoints")
if "programs" in sys.argv:
    said = subprocess.run(["cat", "old/here.txt"], capture_output=True, text=True)
    assert said.returncode == 1

for number in range(10):
    loss = model(torch.randn(16, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with open("metrics.csv", "a", newline="") as file:
        csv.writer(file).writerow([number, 0.0])
    events.put(b"event")
    (pathlib.Path("runs") / f"{number}.json").write_text(json.dumps({"step": number}))
    assert len(list(pathlib.Path("runs").glob("*.json"))) == number + 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kept.txt").write_text("before")
    (tmp_path / "old" / "log.txt").write_text("before\n")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "x").write_text("before")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


@pytest.mark.parametrize("overlay", [True, False])
def test_they_run_through_and_leave_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, overlay: bool
) -> None:
    if not overlay:
        monkeypatch.setenv("GPUSCOPE_NO_OVERLAY", "1")
    before = files(folder)
    programs = []
    for _ in range(2):  # the second finds the files as the first did
        options = WorkloadOptions(arguments=("programs",))
        programs.append(gs.capture(str(folder / "train.py"), options=options))
    assert files(folder) == before
    # Calls of Python before an operator differ by a few where the script has a thread of its own.
    first, second = ([replace(op, python_calls=0) for op in each.ops] for each in programs)
    assert first == second
    note = str(programs[0].assumptions[-1])
    if overlay and "private copy" not in note:
        pytest.skip(note)
    assert ("Your code ran on a private copy" in note) == overlay
    assert ("No private copy of the files could be made here" in note) != overlay


def test_writes_may_be_real(folder: Path) -> None:
    options = WorkloadOptions(arguments=("real",), allow_writes=True)
    gs.capture(str(folder / "train.py"), options=options)
    assert (folder / "checkpoints" / "0.pt").is_file()
    assert (folder / "old" / "log.txt").read_text() == "before\nmore\n"


def test_what_comes_back_is_what_was_captured(folder: Path) -> None:
    """Not one figure is another than without a process between."""
    path = str(folder / "train.py")
    options = WorkloadOptions(arguments=("real",), allow_writes=True)
    there = gs.capture(path, options=options)
    code = (
        "import pickle, sys, gpuscope as gs\n"
        "from gpuscope.program.guard import elsewhere\n"
        "from gpuscope.program.workload import WorkloadOptions\n"
        "elsewhere.inside.set()\n"
        "options = WorkloadOptions(arguments=('real',), allow_writes=True)\n"
        f"sys.stdout.buffer.write(pickle.dumps(gs.capture({path!r}, options=options)))\n"
    )
    for made in ("checkpoints", "runs"):
        shutil.rmtree(folder / made)
    (folder / "gone").mkdir()
    (folder / "old" / "log.txt").write_text("before\n")
    (folder / "trials.db").unlink()
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    here = pickle.loads(done.stdout)
    assert replace(there, capture_s=0.0) == replace(here, capture_s=0.0)
    assert gs.predict(there, "h200").step_time_s == gs.predict(here, "h200").step_time_s
    assert elsewhere.inside.is_set() is False


@pytest.mark.parametrize("how", ["except Exception:\n    pass", "except:\n    pass"])
def test_a_refusal_cannot_be_swallowed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("GPUSCOPE_NO_OVERLAY", "1")
    swallowed = f"import posix\ntry:\n    posix.remove('old/kept.txt')\n{how}\n"
    (folder / "train.py").write_text(swallowed + SCRIPT)
    with pytest.raises(WorkloadError, match="wants to delete") as caught:
        gs.capture(str(folder / "train.py"))
    assert "(line 3 of" in caught.value.what
    assert "--allow-writes" in caught.value.next_step
    assert (folder / "old" / "kept.txt").read_text() == "before"


def test_a_script_that_ends_its_process_is_told(folder: Path) -> None:
    (folder / "train.py").write_text("import os\nos.makedirs('left')\nos._exit(3)\n")
    with pytest.raises(WorkloadError, match="ended on its own"):
        gs.capture(str(folder / "train.py"))
    assert not (folder / "left").exists()
    (folder / "train.py").write_text(SCRIPT)
    assert gs.capture(str(folder / "train.py")).ops  # and the next one is none the worse


LIBRARY = """
import json.tool, os, wave
import torch
from torch import nn

model = nn.Linear(64, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(9):
    model(torch.randn(16, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_library_that_a_run_imported_is_there_for_the_next(folder: Path) -> None:
    """As the first found it; a file of the user's is imported anew each time."""
    (folder / "own_part.py").write_text("import os\nopen('seen', 'x')\n")
    (folder / "train.py").write_text("import own_part\n" + LIBRARY)
    first, second, third = (gs.capture(str(folder / "train.py")) for _ in range(3))
    assert first.ops == second.ops == third.ops
    assert not (folder / "seen").exists()
