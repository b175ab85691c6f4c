"""`gpuscope bench` through the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "measurement" / "bench"))

from bench_builders import result, slowed

from gpuscope.cli.app import app
from gpuscope.measurement.bench.store import save_bench


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUSCOPE_LANG", "en")
    save_bench(result(), tmp_path / "a")
    save_bench(slowed(result(), "matmul", 1.3), tmp_path / "b")
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_a_saved_bench_is_shown(saved, fits_schema) -> None:
    shown = invoke("--replay", saved[0])
    assert shown.exit_code == 0
    assert "reaches 80.0 % of its bf16 peak" in shown.stdout.replace("\n", " ")
    document = fits_schema(invoke("--replay", saved[0], "--json").stdout)
    assert document["schema"] == "gpuscope.bench"


def test_a_report_is_written(saved, tmp_path) -> None:
    path = tmp_path / "card.html"
    assert invoke("--replay", saved[0], "--report", str(path), "--lang", "zh").exit_code == 0
    assert '<html lang="zh">' in path.read_text("utf-8")
    assert invoke("--replay", saved[0], "--report", str(tmp_path / "no" / "x.html")).exit_code == 2


def test_two_benches_are_compared(saved, fits_schema) -> None:
    shown = invoke("--compare", *saved)
    assert shown.exit_code == 0
    assert "is slower" in shown.stdout
    assert fits_schema(invoke("--compare", *saved, "--json").stdout)["ill"] == "second"


def test_what_cannot_be_read_is_told(saved, tmp_path) -> None:
    missing = invoke("--replay", str(tmp_path / "nothing"))
    assert missing.exit_code == 2
    assert "does not exist" in missing.stderr
    assert invoke("--compare", saved[0], str(tmp_path)).exit_code == 2


def test_the_benches_are_listed() -> None:
    pytest.importorskip("torch")
    shown = invoke("--list")
    assert shown.exit_code == 0
    for name in ("matmul", "attention", "transfers", "power", "host"):
        assert name in shown.stdout
    names = {row["name"] for row in json.loads(invoke("--list", "--json").stdout)}
    assert {"matmul", "memory", "peer"} <= names


def test_without_a_gpu_it_says_what_can_still_be_done(tmp_path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.chdir(tmp_path)
    shown = invoke()
    assert shown.exit_code == 2
    assert "--device cpu" in shown.stderr
    assert list(tmp_path.iterdir()) == []
    assert invoke("--only", "matmul", "--device", "cpu").exit_code == 2
