"""Triton's config.pbtxt: read, written, refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import make_app
from gpuscope.errors import GpuscopeError
from gpuscope.serving.engine import engine
from gpuscope.serving.metrics import metrics
from gpuscope.serving.triton_config import TritonConfig, config_of, config_text, read_config

REAL = """
# a comment
name: "densenet_onnx"
platform: "onnxruntime_onnx"
max_batch_size : 16
input [
  { name: "data_0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }
]
output [ { name: "fc6_1", data_type: TYPE_FP32, dims: [ 1000 ], label_filename: 'labels.txt' } ]
instance_group [
  { count: 1 kind: KIND_GPU gpus: [ 0, 1 ] },
  { count: 2 }
]
dynamic_batching {
  preferred_batch_size: [ 8, 4 ]
  max_queue_delay_microseconds: 100
}
parameters: { key: "x" value: { string_value: "y" } }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "config.pbtxt"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_real_one(tmp_path: Path) -> None:
    found = read_config(written(tmp_path, REAL))
    assert found == TritonConfig("densenet_onnx", 16, (4, 8), 100, 4, "onnxruntime")


def test_a_backend_is_its_profile(tmp_path: Path) -> None:
    words = {
        'backend: "tensorrt"': "TensorRT",
        'platform: "tensorrt_plan"': "TensorRT",
        'backend: "python"': "static batching",
    }
    for word, name in words.items():
        config = read_config(written(tmp_path, f"{word} max_batch_size: 8 dynamic_batching {{}}"))
        base = engine(config.backend or "static")
        assert base.called == name
        assert config.engine().host_s == base.host_s
        assert config.engine().scheduler == "triton"


@pytest.mark.parametrize("name", ["onnxruntime", "tensorrt"])
def test_a_run_of_theirs_writes_its_backend(name: str, tmp_path: Path) -> None:
    run = gs.serve("llama-3.1-8b", "h200", engine=name, rate=2, requests=20)[0]
    config = config_of(run)
    assert config is not None
    assert config.backend == name
    assert read_config(written(tmp_path, config_text(config))) == config
    assert run.iterations.decode_sequences.max() <= 32


def test_there_and_back(tmp_path: Path) -> None:
    for config in (
        TritonConfig("a", 8, (2, 4), 500, 2), TritonConfig("b", 1), TritonConfig("c", 64, (), 7),
    ):  # fmt: skip
        assert read_config(written(tmp_path, config_text(config))) == config


def test_without_dynamic_batching_each_request_goes_alone(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, "max_batch_size: 8")).max_batch_size == 1


@pytest.mark.parametrize(
    "text",
    [
        "max_batch_size: many", "max_batch_size: -1", "max_batch_size:", "dynamic_batching {",
        "dynamic_batching: 3", "a" + "{ a" * 400, "max_batch_size: 4 dynamic_batching "
        "{ preferred_batch_size: 8 }", "instance_group [ { count: 999999999 } ]", "}", '"name"',
        "name: \x00", "x: [ 1, 2",
    ],
)  # fmt: skip
def test_what_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(GpuscopeError, match=r"no config\.pbtxt.*dynamic_batching \{ \}"):
        read_config(written(tmp_path, text))


def test_a_longer_delay_makes_larger_batches_and_later_answers(tmp_path: Path) -> None:
    runs = []
    for delay in (0, 400_000):
        path = written(tmp_path, config_text(TritonConfig("m", 16, (), delay)))
        runs.append(
            gs.serve("llama-3.1-8b", "h200", engine=str(path), rate=20, requests=200, output=8)[0]
        )
    hasty, patient = runs
    assert hasty.engine == "triton"
    assert len(patient.iterations) < 0.7 * len(hasty.iterations)
    assert (metrics(patient).ttft.p50_s or 0) > (metrics(hasty).ttft.p50_s or 0)


def test_instances_are_replicas(tmp_path: Path) -> None:
    path = str(written(tmp_path, config_text(TritonConfig("m", 8, (), 0, 2))))
    run = gs.serve("llama-3.1-8b", "2xh200", engine=path, rate=4, requests=60)[0]
    assert set(run.served.replica) == {0, 1}
    with pytest.raises(GpuscopeError, match="2 devices are needed"):
        gs.serve("llama-3.1-8b", "h200", engine=path, rate=4, requests=60)


def test_the_command_writes_it(tmp_path: Path) -> None:
    cli, app, path = CliRunner(), make_app(["serve"]), tmp_path / "out.pbtxt"
    words = ["serve", "llama-3.1-8b", "--rate", "2", "--requests", "40", "--pbtxt", str(path)]
    assert cli.invoke(app, words).exit_code != 0
    assert cli.invoke(app, [*words, "--engine", "static"]).exit_code == 0
    assert read_config(path).max_batch_size == 32
