"""`gpuscope guard`, from the settings to the exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

WORKLOAD = """
import torch
from torch import nn


def build():
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")

    def step():
        return model(x)

    return step
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUSCOPE_LANG", "en")
    monkeypatch.chdir(tmp_path)
    Path("work.py").write_text(WORKLOAD)
    Path("gpuscope.toml").write_text('on = ["h100"]\n[workloads.w]\nrun = "work.py:build"\n')
    return tmp_path


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["guard", *arguments])


def test_a_change_that_makes_it_worse_is_found(project: Path, fits_schema) -> None:
    assert "Type: gpuscope guard --update" in invoke().stderr
    assert invoke("--update").exit_code == 0
    held = invoke("--json")
    assert held.exit_code == 0
    assert fits_schema(held.stdout)["failed"] is False
    Path("work.py").write_text(WORKLOAD.replace("model(x)", "model(x).sin()"))
    worse = invoke("--annotations", "github", "--markdown", "c.md")
    assert worse.exit_code == 1
    assert fits_schema(invoke("--json").stdout)["failed"] is True
    assert "1 launch, none before" in worse.stdout
    assert "::error file=work.py,line=11::w on h100: " in worse.stdout
    assert "aten::sin" in Path("c.md").read_text()


def test_what_cannot_be_predicted_leaves_the_baseline_alone(project: Path) -> None:
    Path("gpuscope-baseline.toml").write_text("mine")
    Path("work.py").write_text("def build():\n    raise KeyError('x')\n")
    failed = invoke("--update")
    assert failed.exit_code == 2
    assert "The workload 'w' cannot be predicted" in failed.stderr
    Path("gpuscope.toml").write_text('on = ["h1000"]\n[workloads.w]\nrun = "work.py:build"\n')
    unknown = invoke("--update")
    assert unknown.exit_code == 2
    assert "h100" in unknown.stderr
    assert Path("gpuscope-baseline.toml").read_text() == "mine"


TRAINING = """
import torch
from torch import nn


def build():
    parts = [nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 64)]
    model = nn.Sequential(*parts).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 64, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        return model(x).sum().item()

    return step
"""

DOCUMENTS = """
from typer.testing import CliRunner
from gpuscope.cli.app import app

for words in (
    "guard --update -q",
    "guard --json -q",
    "predict work.py:build --on h100 --json -q",
    "predict work.py:build --on 2xh100 --json -q",
):
    print(CliRunner().invoke(app, words.split()).stdout)
print(open("gpuscope-baseline.toml").read())
"""


def test_documents_do_not_depend_on_the_hash_seed(project: Path) -> None:
    """Two processes, two seeds: the guard's document, two runs' and the baseline, to the byte but
    for how long the capture took."""
    Path("work.py").write_text(TRAINING)
    made = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", DOCUMENTS], check=True, env=environment, stdout=subprocess.PIPE
        )
        made.append(re.sub(rb'"capture_s": ?[0-9.e-]+', b"", done.stdout))
    assert b"gpuscope.guard" in made[0]
    assert made[0].count(b'"gpuscope.run"') == 2
    assert b"aten::gelu" in made[0]
    assert made[0] == made[1]
