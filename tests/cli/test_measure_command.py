"""`gpuscope measure`: checks first, then one result in the form that was asked for."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from run_builders import gpt_run
from typer.testing import CliRunner

from gpuscope import api
from gpuscope.cli.app import app
from gpuscope.measurement import run as measuring
from gpuscope.run import Measurement
from gpuscope.run.reader import load_runs


@pytest.fixture
def asked(monkeypatch) -> list:
    """Measuring is replaced by a ready run; what it does is tested where it lives."""
    made: list = []

    def measure(workload, **options):
        made.append((workload, options))
        options["on_progress"]("Warming up …")
        how = Measurement(
            confidence=0.96875,
            blocks_s=(0.2, 0.21),
            steps_per_block=4,
            warmup_steps=9,
            settled_after=3,
            average_w=512.0,
            energy_window_s=2.0,
            energy_uncertainty_j=1.5,
            throttle_reasons=("software power cap",),
            throttled_share={"power": 0.25},
            machine={"torch": "2.11"},
        )
        return replace(gpt_run(), origin="measured", measurement=how)

    monkeypatch.setattr(measuring, "measure", measure)
    return made


def start(*arguments: str):
    return CliRunner().invoke(app, ["measure", *arguments])


def test_the_story_says_how_it_was_measured(asked: list) -> None:
    ended = start("gpt2", "--batch", "4", "--device", "cuda:1", "--seconds", "5")
    assert ended.exit_code == 0, ended.output
    for text in ("96.9 % interval", "9 steps; steady after 3", "software power cap", "512 W"):
        assert text in ended.stdout
    ((workload, options),) = asked
    assert workload == "gpt2"
    assert options["options"].batch == 4
    assert (options["on"], options["seconds"], options["profile"]) == ("cuda:1", 5.0, True)


def test_in_chinese(asked: list) -> None:
    ended = start("gpt2", "--lang", "zh")
    assert "测量方式" in ended.stdout
    assert "第 3 步之后稳定" in ended.stdout
    assert "受功率限制" in ended.stdout.replace("\n", "")


def test_files(asked: list, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("r.json.gz", "r.html", "t.json.gz")}
    ended = start(
        "gpt2",
        "--output",
        str(paths["r.json.gz"]),
        "--report",
        str(paths["r.html"]),
        "--trace",
        str(paths["t.json.gz"]),
        "--quiet",
    )
    assert ended.exit_code == 0, ended.output
    assert load_runs(paths["r.json.gz"])[0].measurement.warmup_steps == 9
    assert "gpt-mini" in paths["r.html"].read_text()
    assert json.loads(gzip.decompress(paths["t.json.gz"].read_bytes()))["traceEvents"]


def test_json(asked: list, fits_schema) -> None:
    document = fits_schema(start("gpt2", "--json").stdout)
    assert document["origin"] == "measured"
    assert document["measurement"]["average_w"] == 512.0


def test_beside_a_prediction(asked: list, monkeypatch) -> None:
    predicted = []

    def predict(workload, on, *, options=None, **_):
        predicted.append((workload, on))
        return replace(gpt_run(), step_time_s=gpt_run().step_time_s * 1.1)

    monkeypatch.setattr(api, "predict", predict)
    ended = start("gpt2", "--predict")
    assert ended.exit_code == 0, ended.output
    assert predicted[0][1] == gpt_run().device_id
    assert json.loads(start("gpt2", "--predict", "--json").stdout)["schema"] == "gpuscope.runs"


def test_an_interrupted_run_is_shown_and_ends_with_130(asked: list, monkeypatch) -> None:
    real = measuring.measure

    def measure(workload, **options):
        run = real(workload, **options)
        return replace(run, measurement=replace(run.measurement, interrupted=True))

    monkeypatch.setattr(measuring, "measure", measure)
    ended = start("gpt2")
    assert ended.exit_code == 130
    assert "measured on" in ended.stdout


@pytest.mark.parametrize(
    "arguments",
    [("gpt2", "--task", "dance"), ("gpt2", "--output", "nowhere/x.json"), ("gpt2", "--batch", "0")],
)
def test_wrong_input_is_found_first(asked: list, arguments) -> None:
    assert start(*arguments).exit_code == 2
    assert asked == []
