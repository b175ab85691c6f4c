"""`gpuscope profile`: the script's own behaviour first, then what was seen of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.run.reader import load_runs

SCRIPT = """
import sys, torch
net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(int(sys.argv[1])):
    net(torch.ones(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained", sys.argv[1:])
if sys.argv[2:] == ["fail"]: raise ValueError("mine")
if sys.argv[2:] == ["code"]: sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def profile(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuscope", "profile", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def test_a_script_that_runs_through(folder: Path) -> None:
    ended = profile(folder, "--skip", "5", "--steps", "2", "train.py", "40", "code")
    assert ended.returncode == 7, ended.stderr
    assert ended.stdout == "trained ['40', 'code']\n"
    (run,) = load_runs(folder / "gpuscope-profile" / "run.json.gz")
    assert run.name == "train.py"
    assert len(run.timeline.steps) == 2
    assert run.step_time_s > 0
    assert run.measurement.warmup_steps == 5
    assert {"", "0", "1"} <= {share.path for share in run.analysis.modules}
    page = (folder / "gpuscope-profile" / "report.html").read_text()
    assert "train.py" in page
    trace = gzip.decompress((folder / "gpuscope-profile" / "trace.json.gz").read_bytes())
    assert json.loads(trace)["traceEvents"]


def test_a_script_that_fails_keeps_its_end_and_what_was_seen(folder: Path) -> None:
    options = ("--skip", "3", "--quiet", "--output-dir", "out")
    ended = profile(folder, *options, "train.py", "30", "fail")
    assert (ended.returncode, ended.stdout) == (1, "trained ['30', 'fail']\n")
    assert ended.stderr.strip().splitlines()[-1] == "ValueError: mine"
    assert "runner.py" not in ended.stderr
    assert (folder / "out" / "run.json.gz").exists()


def test_a_script_that_never_steps(folder: Path) -> None:
    (folder / "idle.py").write_text("print('nothing to do')\n")
    ended = profile(folder, "idle.py")
    assert (ended.returncode, ended.stdout) == (0, "nothing to do\n")
    assert "No step was seen" in ended.stderr
    assert not (folder / "gpuscope-profile" / "run.json.gz").exists()


def test_a_script_that_is_too_short(folder: Path) -> None:
    ended = profile(folder, "--skip", "10", "train.py", "6")
    assert ended.returncode == 0
    assert "after 6 steps" in ended.stderr
    assert "--skip 2" in ended.stderr


def test_a_script_that_ends_while_it_is_recorded(folder: Path) -> None:
    ended = profile(folder, "--skip", "4", "--steps", "20", "train.py", "12")
    assert ended.returncode == 0, ended.stderr
    (run,) = load_runs(folder / "gpuscope-profile" / "run.json.gz")
    assert 1 <= len(run.timeline.steps) < 20
    assert any("middle of the recording" in sentence for sentence in run.assumptions)


def test_workers_that_fork_do_not_report(folder: Path) -> None:
    (folder / "loader.py").write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "data = DataLoader(TensorDataset(torch.ones(120, 8)), batch_size=4, num_workers=1,\n"
        "                  multiprocessing_context='fork')\n"
        "net = torch.nn.Linear(8, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for (x,) in data:\n"
        "    net(x).sum().backward(); optimizer.step()\n"
        "print('done')\n"
    )
    ended = profile(folder, "--skip", "5", "loader.py")
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert ended.stderr.count("Wrote") == 1


def test_ranks_that_settle_at_other_times_record_the_same_steps(folder: Path) -> None:
    """Rank 1 is late, and its time does not settle for long."""
    (folder / "ddp.py").write_text(
        "import time, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "rank = dist.get_rank()\n"
        "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))\n"
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for step in range(30):\n"
        "    if rank == 1: time.sleep(0.02 + 0.01 * max(0, 12 - step))\n"
        "    net(torch.ones(4, 8)).sum().backward(); optimizer.step()\n"
        "dist.destroy_process_group()\n"
    )
    ended = profile(folder, "--gpus", "2", "ddp.py")
    assert ended.returncode == 0, ended.stderr
    out = folder / "gpuscope-profile"
    assert sorted(path.name for path in out.iterdir()) == [
        "report.html",
        "run.json.gz",
        "trace-rank-0.json.gz",
        "trace-rank-1.json.gz",
    ]
    (run,) = load_runs(out / "run.json.gz")
    assert run.ranks == (0, 1)
    assert all(time.communication_s > 0 for time in run.analysis.time.values())
    assert run.measurement.warmup_steps == 12
    own = {r: [(s.start_ns, s.end_ns) for s in run.timeline.steps if s.rank == r] for r in (0, 1)}
    assert len(own[0]) == 3
    assert own[0] == own[1]
    assert run.step_time_s >= 0.02
    assert run.device_busy_s <= run.step_time_s
    assert not any("Other steps" in sentence for sentence in run.assumptions)
    assert "no_common_time" not in {remark.code for remark in run.analysis.trust.remarks}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.py"], "no file none.py"),
        (["-m", "no_such_module_here"], "no module"),
        (["--by", "magic", "train.py"], "magic"),
        (["--steps", "0", "train.py"], "--steps"),
        (["--report", "missing/r.html", "train.py"], "missing"),
    ],
)
def test_wrong_input_is_said_before_anything_runs(
    folder: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ended = CliRunner().invoke(app, ["profile", *arguments])
    assert ended.exit_code == 2
    assert isinstance(ended.exception, SystemExit)
    assert said in ended.stderr
    assert "Traceback" not in ended.output
    assert "trained" not in ended.output


def test_steps_of_a_notebook() -> None:
    import torch

    import gpuscope as gs

    net = torch.nn.Linear(8, 8)
    with gs.profile(steps=2, skip=1, name="cell") as p, torch.no_grad():
        for _ in range(8):
            net(torch.ones(1, 8))
    assert p.run.name == "cell"
    assert len(p.run.timeline.steps) == 2
    assert p.run is p.run
    assert not net._forward_pre_hooks


def test_steps_that_the_notebook_names_itself() -> None:
    import torch

    import gpuscope as gs

    with gs.profile(steps=2, skip=2) as p:
        for _ in range(8):
            torch.ones(8, 8) @ torch.ones(8, 8)
            p.step()
    assert len(p.run.timeline.steps) == 2


def test_a_notebook_without_steps() -> None:
    import gpuscope as gs

    with gs.profile() as p:
        pass
    with pytest.raises(gs.GpuscopeError, match="No step was seen"):
        _ = p.run
