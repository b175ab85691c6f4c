"""`gpuscope predict`: checks first, then one result in the form that was asked for.

Capturing and predicting are replaced by ready runs; what they do is tested where they live.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field, replace

import pytest
from run_builders import gpt_run
from typer.testing import CliRunner

from gpuscope import api, sweeping
from gpuscope.cli.app import app
from gpuscope.run.reader import load_runs


@dataclass
class Calls:
    """What the command asked for."""

    captured: list = field(default_factory=list)
    predicted: list = field(default_factory=list)
    fits: bool = True


@pytest.fixture
def calls(monkeypatch) -> Calls:
    made = Calls()

    def capture(workload, *, options=None, strict=False):
        print("the workload's own code prints this")
        made.captured.append((workload, options, strict))
        return "program"

    def predict(workload, on, *, options=None, strict=False, **_):
        made.predicted.append((workload, on, options))
        if workload != "program":
            capture(workload, options=options, strict=strict)
        run = gpt_run()
        factor = 4.8e12 / on.device.memory_bandwidth_bytes_per_s
        memory = replace(run.analysis.memory, fits=made.fits, missing_bytes=0)
        return replace(
            run,
            target=on.device.name,
            device_id=on.device.id,
            fits=made.fits,
            step_time_s=run.step_time_s * factor,
            analysis=replace(run.analysis, memory=memory),
        )

    def capture_each(workload, clusters, options=None, strict=False, calibration=None):
        program = capture(workload, options=options, strict=strict)
        return [program for _ in clusters]

    monkeypatch.setattr(api, "capture_each", capture_each)
    monkeypatch.setattr(api, "predict", predict)
    monkeypatch.setattr(sweeping, "capture_each", capture_each)
    monkeypatch.setattr(sweeping, "predict_captured", lambda program, on, *_: predict(program, on))
    monkeypatch.setenv("GPUSCOPE_LANG", "en")
    return made


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["predict", *arguments])


def test_the_story(calls) -> None:
    result = invoke("gpt2")
    assert result.exit_code == 0
    for part in ("Step time", "Where the time goes", "What to change first", "NVIDIA H200"):
        assert part in result.stdout


def test_options_reach_the_workload(calls) -> None:
    invoke(
        "gpt2",
        "--task",
        "train",
        "--batch",
        "4",
        "--seq",
        "512",
        "--dtype",
        "bf16",
        "--attention",
        "eager",
        "--optimizer",
        "sgd",
        "--compile",
        "default",
        "--checkpointing",
        "--layers",
        "3",
        "--strict",
    )
    ((workload, options, strict),) = calls.captured
    assert (workload, strict) == ("gpt2", True)
    assert (options.task, options.batch, options.seq, options.dtype) == ("train", 4, 512, "bf16")
    assert (options.attention, options.optimizer, options.compile) == ("eager", "sgd", "default")
    assert (options.checkpointing, options.layers) == (True, 3)


def test_json_has_the_standard_output_to_itself(calls) -> None:
    result = invoke("gpt2", "--json")
    document = json.loads(result.stdout)
    assert document["schema"] == "gpuscope.run"
    assert "the workload's own code prints this" in result.stderr


def test_one_capture_serves_many_devices(calls) -> None:
    result = invoke("gpt2", "--on", "h200,h100, mi300x")
    assert len(calls.captured) == 1
    assert [on.device.id for _, on, _ in calls.predicted] == [
        "nvidia-h200-sxm",
        "nvidia-h100-sxm",
        "amd-mi300x",
    ]
    for name in ("nvidia-h200-sxm", "nvidia-h100-sxm", "amd-mi300x"):
        assert name in result.stdout
    documents = json.loads(invoke("gpt2", "--on", "h200,h100", "--json").stdout)
    assert documents["schema"] == "gpuscope.runs"
    assert len(documents["runs"]) == 2


def test_what_if(calls) -> None:
    invoke("gpt2", "--set", "memory_bandwidth=8TB/s", "--set", "sm_count=160")
    ((_, cluster, _),) = calls.predicted
    assert cluster.device.memory_bandwidth_bytes_per_s == 8e12
    assert cluster.device.compute_units == 160
    assert cluster.n_devices == 1


def test_a_sweep_of_the_device_captures_once_and_says_what_is_worth_it(calls) -> None:
    result = invoke("gpt2", "--sweep", "memory_bandwidth=2..8TB/s")
    assert len(calls.captured) == 1
    swept = [on.device.memory_bandwidth_bytes_per_s for _, on, _ in calls.predicted[:7]]
    assert swept == [n * 1e12 for n in range(2, 9)]
    assert "What is worth paying for" in result.stdout
    # The replaced prediction is all bandwidth: its elasticity is -1, that of all else 0.
    document = json.loads(invoke("gpt2", "--sweep", "memory_bandwidth=2..8TB/s", "--json").stdout)
    worth = {row["resource"]: row["elasticity"] for row in document["worth"]}
    assert worth["memory bandwidth"] == pytest.approx(-1)
    assert worth["arithmetic"] == pytest.approx(0)
    assert [p["value"] for p in document["points"]] == swept


def test_a_sweep_of_a_peak_rate(calls) -> None:
    invoke("gpt2", "--sweep", "bf16=500..2000TFLOPS:3")
    peaks = [on.device.peak_flops_per_s("bf16") for _, on, _ in calls.predicted[:3]]
    assert peaks == [500e12, 1250e12, 2000e12]


def test_a_sweep_of_the_batch_captures_each_point(calls) -> None:
    result = invoke("gpt2", "--sweep", "batch=1..8", "--seq", "128")
    assert result.exit_code == 0
    assert [options.batch for _, options, _ in calls.captured] == [1, 2, 4, 8]
    assert {options.seq for _, options, _ in calls.captured} == {128}


def test_a_sweep_of_devices(calls) -> None:
    invoke("gpt2", "--sweep", "devices=1..16")
    assert [on.n_devices for _, on, _ in calls.predicted[:5]] == [1, 2, 4, 8, 16]


def test_files(calls, tmp_path) -> None:
    paths = {name: tmp_path / name for name in ("run.json", "report.html", "trace.json.gz")}
    result = invoke(
        "gpt2",
        "--output",
        str(paths["run.json"]),
        "--report",
        str(paths["report.html"]),
        "--trace",
        str(paths["trace.json.gz"]),
    )
    assert result.exit_code == 0
    assert load_runs(paths["run.json"])[0].target == "NVIDIA H200 SXM 141GB"
    assert paths["report.html"].read_text("utf-8").startswith("<!doctype html>")
    assert json.loads(gzip.decompress(paths["trace.json.gz"].read_bytes()))["traceEvents"]
    for path in paths.values():
        assert f"Wrote {path}" in result.stderr
    assert "Step time" in result.stdout


def test_json_with_output_prints_nothing(calls, tmp_path) -> None:
    result = invoke("gpt2", "--json", "--output", str(tmp_path / "run.json"), "--quiet")
    assert result.stdout == ""
    assert (tmp_path / "run.json").exists()


def test_traces_of_several_devices(calls, tmp_path) -> None:
    invoke("gpt2", "--on", "h200,h100", "--trace", str(tmp_path / "t.json.gz"))
    assert {p.name for p in tmp_path.iterdir()} == {
        "t-nvidia-h200-sxm.json.gz",
        "t-nvidia-h100-sxm.json.gz",
    }


def test_quiet(calls) -> None:
    result = invoke("gpt2", "--quiet")
    assert "Step time" in result.stdout
    assert "Where the time goes" not in result.stdout


def test_must_fit(calls) -> None:
    calls.fits = False
    assert invoke("gpt2").exit_code == 0
    result = invoke("gpt2", "--must-fit")
    assert result.exit_code == 3
    assert "Step time" in result.stdout
    assert "does not fit" in result.stderr


def test_chinese(calls) -> None:
    assert "单步时间" in invoke("gpt2", "--lang", "zh").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "h2000"], "Unknown device 'h2000'"),
        (["--on", " , "], "No device is named"),
        (["--on", "0xh200"], "has no devices"),
        (["--dtype", "bf17"], "Unknown dtype 'bf17'"),
        (["--task", "sing"], "Unknown task 'sing'"),
        (["--optimizer", "adamx"], "Unknown optimizer 'adamx'"),
        (["--attention", "none"], "Unknown attention 'none'"),
        (["--compile", "fast"], "Unknown compile mode 'fast'"),
        (["--batch", "0"], "batch is 0"),
        (["--layers", "-1"], "layers is -1"),
        (["--set", "speed=9"], "Unknown device figure 'speed'"),
        (["--set", "memory"], "no setting"),
        (["--sweep", "memory_bandwidth=9..2TB/s"], "smaller end first"),
        (["--sweep", "peak_flops=1..2PFLOPS"], "of which dtype"),
        (["--sweep", "batch=1..4", "--on", "h200,h100"], "runs on one device"),
        (["--sweep", "batch=1..4", "--report", "x.html"], "no trace and no report"),
        (["--sweep", "devices=1..12"], "nodes"),
        (["--report", "/nowhere/report.html"], "does not exist"),
        (["--output", "/"], "is a folder"),
        (["--lang", "fr"], "Unknown language 'fr'"),
    ],
)
def test_wrong_input_is_found_before_the_work(calls, arguments, message) -> None:
    result = invoke("gpt2", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert calls.captured == []


def test_sizes_of_own_code_cannot_be_swept(calls) -> None:
    result = invoke("train.py:build", "--sweep", "batch=1..4")
    assert result.exit_code == 2
    assert "fixed in its own code" in result.stderr
