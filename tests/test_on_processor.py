"""A graph on a processor: ONNX Runtime's own fusions, its profile, wrong input."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

import onnx
import onnxruntime

import gpuscope as gs
import onnx_models as models
from gpuscope.errors import GpuscopeError, InvalidValueError, UnsupportedError
from gpuscope.program.models.settings import WorkloadOptions

ON = "intel-xeon-8592:2"


def predicted(path: Path, on: str = ON, engine: str | None = None, **axes: int) -> gs.Run:
    options = WorkloadOptions(axes=tuple(axes.items()), engine=engine)
    return gs.predict(str(path), on=on, options=options)


def profile(path: Path, into: Path, **sizes: int) -> Path:
    """ONNX Runtime's own profile of two runs."""
    import numpy as np

    settings = onnxruntime.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(into / path.stem)
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    given = {
        each.name: np.ones([sizes.get(s, s) for s in each.shape], np.float32)
        for each in session.get_inputs()
    }
    for _ in range(2):
        session.run(None, given)
    return Path(session.end_profiling())


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, gs.Run]:
    path = models.mlp(tmp_path_factory.mktemp("graph") / "mlp.onnx")
    return path, predicted(path, batch=4096)


def test_the_nodes_are_those_that_onnx_runtime_runs(
    mlp: tuple[Path, gs.Run], tmp_path: Path
) -> None:
    path, run = mlp
    events = run.timeline.events
    told = json.loads(profile(path, tmp_path, batch=32).read_text())
    ran = [e["args"]["op_name"] for e in told if e["name"].endswith("_kernel_time")]
    assert [run.timeline.names[n] for n in events.name] == ran[: len(ran) // 2]
    assert "Gelu" in " ".join(ran)
    assert events.kernel.max() == -1
    assert math.isnan(run.device_busy_s)
    assert run.step_time_s == pytest.approx(run.timeline.steps[0].end_ns / 1e9)
    low, high = run.step_time_interval_s
    assert low < run.step_time_s < high


def test_weights_may_be_absent_and_one_core_takes_longer(
    mlp: tuple[Path, gs.Run], tmp_path: Path
) -> None:
    path, run = mlp
    apart = tmp_path / "mlp.onnx"
    onnx.save_model(
        onnx.load(str(path)), str(apart), save_as_external_data=True, location="w.bin",
        size_threshold=1024,
    )  # fmt: skip
    (tmp_path / "w.bin").unlink()
    one = predicted(apart, "intel-xeon-8592:1", batch=4096)
    assert one.timeline.names == run.timeline.names
    assert run.step_time_s < one.step_time_s < 2.2 * run.step_time_s


def test_openvino_fuses_more_and_only_there(tmp_path: Path) -> None:
    path = models.attention(tmp_path / "attention.onnx")
    fused = predicted(path, engine="openvino", seq=64)
    assert len(fused.timeline.events) < 7  # nodes of the graph
    with pytest.raises(GpuscopeError, match="engine"):
        predicted(path, "h200", engine="openvino", seq=64)
    with pytest.raises(GpuscopeError, match="engine"):
        predicted(path, engine="tensorrt", seq=64)


def test_a_profile_of_the_graph_is_compared_and_of_another_refused(
    mlp: tuple[Path, gs.Run], tmp_path: Path
) -> None:
    path, run = mlp
    own = gs.load(profile(path, tmp_path, batch=4096))
    strange = gs.load(profile(models.attention(tmp_path / "other.onnx"), tmp_path, seq=8))
    for each in (run, predicted(path, "h200", batch=4096)):
        assert gs.compare(each, own).b_s == own.analysis.step_s
        for pair in ((each, strange), (strange, each)):
            with pytest.raises(InvalidValueError, match="is no profile of"):
                gs.compare(*pair)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="only an ONNX graph"):
        gs.predict("gpt2", on=ON)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--on", f"{ON},h200"], "h200 is no processor"),
        (["--on", ON, "--sweep", "memory_bandwidth=1..2TB/s"], "--sweep has no meaning"),
        (["--on", "intel-xeon-8592:99"], "64 cores"),
    ],
)
def test_the_command_says_what_is_wrong(
    mlp: tuple[Path, gs.Run],
    more: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from gpuscope.cli.app import main

    argv = ["gpuscope", "predict", str(mlp[0]), "--set", "batch=8", *more]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
