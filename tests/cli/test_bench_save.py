"""A saved bench becomes this machine's calibration, and predictions use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.bench.store import save_bench
from gpuscope.measurement.bench.types import BenchResult, Point


def saved(folder: Path, device_id: str = "nvidia-h200-sxm") -> Path:
    base = calibration_for(device("h200"))
    points = tuple(
        Point(
            "host",
            "op",
            {"name": n, "variant": "no_grad"},
            "host",
            3 * base.value(f"host.op.{n}.plain_s"),
        )
        for n in ("mm", "add", "mul", "exp", "neg")
    )
    save_bench(BenchResult({"device": "NVIDIA H200"}, device_id, points), folder)
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout  # what is said meanwhile goes to standard error


@pytest.mark.slow
def test_replayed_saved_and_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path / "home"))
    bench = saved(tmp_path / "bench")
    run("bench", "--replay", str(bench), "--save", "--quiet")
    assert (tmp_path / "home" / "this" / "calibration.toml").is_file()
    small = ("predict", "gpt2", "--task", "decode", "--batch", "1", "--layers", "2", "--json")
    shipped = json.loads(run(*small, "--on", "h200"))
    own = json.loads(run(*small, "--on", "this"))
    brought = json.loads(run(*small, "--calibration", str(tmp_path / "home" / "this")))
    assert own["step_time_s"] > 1.5 * shipped["step_time_s"]
    assert brought["step_time_s"] == pytest.approx(own["step_time_s"])
    assert own["device_id"] == "nvidia-h200-sxm"


def test_a_device_that_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path / "home"))
    bench = saved(tmp_path / "bench", "")
    result = CliRunner().invoke(app, ["bench", "--replay", str(bench), "--save", "--quiet"])
    assert result.exit_code != 0
    assert "not in the catalogue" in " ".join(result.output.split())
    assert not (tmp_path / "home").exists()
