"""The public verbs, end to end on small workloads."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.api import capture, predict, predict_many, resolve_target, sweep
from gpuscope.cli.app import app
from gpuscope.errors import (
    CaptureError,
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    WorkloadError,
)
from gpuscope.program.types import Op, Program, TensorSpec

torch = pytest.importorskip("torch")
nn = torch.nn


def mlp(width=4096, batch=8192):
    def build():
        model = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        model = model.cuda().to(torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        x = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)

        def step():
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        return step

    return build


@pytest.fixture(scope="module")
def program() -> Program:
    return capture(mlp())


@pytest.fixture(scope="module")
def run(program):
    return predict(program, "h200")


def test_a_predicted_run(run) -> None:
    assert run.origin == "predicted"
    assert run.device_id == gs.device("h200").id
    low, high = run.step_time_interval_s
    assert 0 < low <= run.step_time_s <= high
    assert 0 < run.device_busy_s <= run.step_time_s * (1 + 1e-9)
    assert run.host_busy_s > 0
    assert run.fits
    assert run.energy_j > 0
    assert run.program.name == "build"


def test_time_lies_above_the_roofline(run, program) -> None:
    flops = 3 * 2 * 2 * 8192 * 4096 * 4 * 4096 - 2 * 8192 * 4096 * 4 * 4096
    peak = gs.device("h200").peak_flops_per_s("bfloat16")
    assert flops / peak < run.step_time_s < 3 * flops / peak


def test_memory_is_what_the_tensors_take(run) -> None:
    parameters = 2 * 4096 * 4 * 4096 + 4 * 4096 + 4096
    resident = 3 * 2 * parameters + 8192 * 4096 * 2  # weights, moments, input
    activations = 8192 * 4 * 4096 * 2
    assert run.peak_memory_bytes > resident + activations
    assert run.peak_memory_bytes < 1.6 * (resident + 2 * activations)
    assert run.reserved_memory_bytes >= run.peak_memory_bytes


def test_a_program_is_taken_as_it_is(program) -> None:
    assert capture(program) is program


def test_one_capture_for_many_devices(program) -> None:
    runs = predict_many(program, ["h200", "a100-80gb", gs.device("mi300x")])
    assert [r.device_id for r in runs] == [
        gs.device(name).id for name in ("h200", "a100-80gb", "mi300x")
    ]
    assert all(r.program is not None and r.program.ops == program.ops for r in runs)
    assert runs[1].step_time_s > 1.5 * runs[0].step_time_s
    assert runs[0].step_time_s == predict(program, "h200").step_time_s


def test_an_incapable_device_is_a_row_that_says_why(tmp_path) -> None:
    """As in the command's comparison: a TPU has no float64, the others go on."""

    def build():
        x = torch.randn(256, 256, dtype=torch.float64, device="cuda")
        return lambda: x @ x

    runs = predict_many(build, ["h200", "tpu-v5e", "a100-80gb"])
    assert [type(run).__name__ for run in runs] == ["Run", "Refused", "Run"]
    assert runs[1].device_id == "google-tpu-v5e"
    assert "float64" in runs[1].what + runs[1].why
    gs.write_report(runs, tmp_path / "all.html", "en", what_if=False)
    with pytest.raises(gs.UnsupportedError):
        predict_many(build, ["tpu-v5e", "tpu-v6e"])


def test_what_if_the_device_were_better(program) -> None:
    plain = predict(program, "h200").step_time_s
    better = {"memory_bandwidth_bytes_per_s": 20e12}
    assert predict(program, "h200", overrides=better).step_time_s < plain


def test_a_sweep_over_a_device_field(program) -> None:
    points = sweep(program, "h200", "memory_bandwidth_bytes_per_s", [2e12, 4e12, 8e12])
    times = [run.step_time_s for _, run in points]
    assert [value for value, _ in points] == [2e12, 4e12, 8e12]
    assert times == sorted(times, reverse=True)


def test_sizes_of_a_function_cannot_be_swept() -> None:
    with pytest.raises(InvalidValueError, match="batch"):
        sweep(mlp(), "h200", "batch", [1, 2])


def test_too_little_memory_is_predicted_all_the_same(program) -> None:
    small = gs.device("h200").replace(memory_bytes=5 * 10**8)
    run = predict(program, small)
    assert run.fits is False
    assert run.step_time_s > 0


@pytest.mark.parametrize("workload", [None, 3, ["gpt2"]], ids=repr)
def test_what_is_no_workload(workload) -> None:
    with pytest.raises(WorkloadError) as caught:
        capture(workload)
    assert type(workload).__name__ in caught.value.what


def test_unknown_devices_list_the_near_ones(program) -> None:
    with pytest.raises(UnknownNameError) as caught:
        predict(program, "h201")
    assert "h200" in caught.value.near


def test_the_device_is_looked_up_before_anything_is_captured() -> None:
    def build():
        pytest.fail("captured for a device that does not exist")

    with pytest.raises(UnknownNameError):
        predict(build, "h201")


def test_targets() -> None:
    assert resolve_target("8xh200").n_devices == 8
    assert resolve_target(gs.device("mi300x")) == resolve_target("mi300x")
    cluster = resolve_target("8xh200")
    assert resolve_target(cluster) is cluster


def test_a_dtype_that_the_device_lacks() -> None:
    fp8 = TensorSpec((64, 64), (64, 1), "float8_e4m3fn", "device", 0)
    out = TensorSpec((64, 64), (64, 1), "bfloat16", "device", 1)
    program = Program("fp8", (Op(0, "aten::_scaled_mm", inputs=(fp8, fp8), outputs=(out,)),))
    assert predict(program, "h200").step_time_s > 0
    with pytest.raises(UnsupportedError):
        predict(program, "a100-80gb")


@pytest.fixture
def shapeless():
    library = torch.library.Library("gpuscope_api_test", "DEF")
    library.define("shapeless(Tensor x) -> Tensor")
    library.impl("shapeless", lambda x: x + 1, "CPU")
    yield torch.ops.gpuscope_api_test.shapeless
    library._destroy()


def test_an_operator_that_nobody_knows(shapeless) -> None:
    def build():
        x = torch.randn(1024, 1024, device="cuda")
        return lambda: shapeless(x)

    run = predict(build, "h200")
    assert run.program.unsupported == ("gpuscope_api_test::shapeless",)
    assert run.device_busy_s > 2 * 1024 * 1024 * 4 / 4.8e12
    assert any("gpuscope_api_test::shapeless" in a for a in run.assumptions)
    with pytest.raises(CaptureError, match="shapeless"):
        predict(build, "h200", strict=True)


def test_assumptions_reach_the_run() -> None:
    def build():
        x = torch.randn(1024, 1024, device="cuda")
        return lambda: x[x > 0].sum()

    assert any("Half" in sentence for sentence in predict(build, "h200").assumptions)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuscope", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_build_that_prints_leaves_the_json_alone(tmp_path) -> None:
    file = tmp_path / "work.py"
    file.write_text(
        textwrap.dedent(
            """
            import torch

            def build():
                print("building")
                x = torch.randn(64, 64, device="cuda")

                def step():
                    print("stepping")
                    return x @ x

                return step
            """
        )
    )
    done = command("predict", f"{file}:build", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "gpuscope.run"


def test_a_build_that_fails_shows_no_traceback(tmp_path) -> None:
    file = tmp_path / "work.py"
    file.write_text("def build():\n    open('not-there.txt')\n")
    done = CliRunner().invoke(app, ["predict", f"{file}:build", "--json"])
    assert done.exit_code == WorkloadError.exit_code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "not-there.txt" in done.stderr
