"""`gpuscope advise`: what it prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces" / "h200"

BUILD = """
import torch

def build(batch=512):
    model = torch.nn.Linear(2048, 2048).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(batch, 2048, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step
"""


def _run(*arguments: str):
    return CliRunner().invoke(app, ["advise", *arguments])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "small_job.py"
    path.write_text(BUILD)
    return f"{path}:build"


def test_a_file_is_advised_on(script, tmp_path):
    page = tmp_path / "advice.html"
    result = _run(script, "--only", "tf32,fused-optimizer", "--json", "--report", str(page))
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert "tf32" in json.dumps(document)
    assert "fused-optimizer" in json.dumps(document)
    assert page.read_text().startswith("<!")


def test_in_chinese_with_the_batch(script):
    result = _run(script, "--only", "fused-optimizer", "--lang", "zh", "--batch-advice")
    assert result.exit_code == 0, result.output
    assert "批大小" in result.stdout
    assert "能安全放下的最大批" in result.stdout


def test_a_recording_is_advised_on():
    result = _run(str(TRACES / "pageable_copies" / "rank-0.json.gz"))
    assert result.exit_code == 0, result.output
    assert "pin-memory" in result.stdout


def test_all_changes_are_listed():
    result = _run("--list")
    assert result.exit_code == 0, result.output
    assert "tf32" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpt2", "--only", "tf33"), "tf32"),
        (("gpt2", "--without", "nothing-such"), "Unknown change"),
        (("gpt2", "--allow", "fp9"), "numerics"),
        (("gpt2", "--objective", "beauty"), "objective"),
        (("gpt2", "--on", "h2000"), "h2000"),
        (("no-such-model",), "no-such-model"),
        (("no_such_file.py:build",), "no file"),
        ((), "No workload is named"),
        ((str(TRACES / "pageable_copies" / "rank-0.json.gz"), "--batch", "3"), "no option"),
    ],
)
def test_wrong_input_is_told_without_a_traceback(arguments, said):
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output
