"""One sweep: what the command line takes the API takes, and the other way round."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.errors import InvalidValueError, UnknownNameError


@pytest.mark.parametrize(
    ("model", "field", "values"), [("resnet18", "image", [64, 512]), ("gpt2", "layers", [1, 2])]
)
def test_a_setting_of_the_workload_is_swept_by_both(model, field, values) -> None:
    options = gs.WorkloadOptions(task="prefill" if model == "gpt2" else "inference")
    points = gs.sweep(model, "h200", field, values, options=options)
    assert [value for value, _ in points] == values
    less, more = (run.step_time_s for _, run in points)
    assert less < more
    asked = ("--task", options.task, "--sweep", f"{field}={','.join(map(str, values))}")
    result = CliRunner().invoke(app, ["predict", model, "--on", "h200", *asked, "--json"])
    assert result.exit_code == 0, result.output
    import json

    runs = [point["run"] for point in json.loads(result.stdout)["points"]]
    assert [run["step_time_s"] for run in runs] == pytest.approx([less, more], rel=1e-12)


def test_short_names_of_figures_are_understood(small) -> None:
    short = gs.sweep(small, "h200", "memory_bandwidth", [2e12, 8e12])
    long = gs.sweep(small, "h200", "memory_bandwidth_bytes_per_s", [2e12, 8e12])
    assert [run.step_time_s for _, run in short] == [run.step_time_s for _, run in long]
    assert short[0][1].step_time_s > short[1][1].step_time_s


def test_a_dtypes_peak_is_swept(small) -> None:
    slow, fast = (run.step_time_s for _, run in gs.sweep(small, "h200", "bf16", [1e14, 2e15]))
    assert slow >= fast


@pytest.mark.parametrize("value", [0, -2, 1.5])
def test_counts_are_whole(value) -> None:
    with pytest.raises(InvalidValueError):
        gs.sweep("gpt2", "h200", "batch", [value])


def test_nothing_to_sweep_and_unknown_figures_are_told() -> None:
    with pytest.raises(InvalidValueError):
        gs.sweep("gpt2", "h200", "batch", [])
    with pytest.raises(UnknownNameError):
        gs.sweep("gpt2", "h200", "memory_bandwith", [1.0])


@pytest.fixture(scope="module")
def small():
    return gs.capture("gpt2", options=gs.WorkloadOptions(layers=1, batch=1, seq=128))
