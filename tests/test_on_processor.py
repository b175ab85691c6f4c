"""A graph on a processor: ONNX Runtime's own fusions, its profile, wrong input."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

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


def test_the_nodes_are_those_that_onnx_runtime_runs(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    run = predicted(path, batch=32)
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


def test_weights_and_their_file_may_be_absent(tmp_path: Path) -> None:
    import onnx

    path = models.mlp(tmp_path / "mlp.onnx")
    whole = predicted(path, batch=8)
    apart = tmp_path / "apart" / "mlp.onnx"
    apart.parent.mkdir()
    onnx.save_model(
        onnx.load(str(path)), str(apart), save_as_external_data=True, location="w.bin",
        size_threshold=1024,
    )  # fmt: skip
    (apart.parent / "w.bin").unlink()
    assert predicted(apart, batch=8).step_time_s == whole.step_time_s


def test_more_cores_and_smaller_batches_take_no_longer(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    times = [predicted(path, f"intel-xeon-8592:{n}", batch=4096).step_time_s for n in (1, 4, 16)]
    assert times == sorted(times, reverse=True)
    sizes = [predicted(path, batch=n).step_time_s for n in (1, 64, 4096)]
    assert sizes == sorted(sizes)


def test_openvino_fuses_more_and_only_there(tmp_path: Path) -> None:
    path = models.attention(tmp_path / "attention.onnx")
    fused = predicted(path, engine="openvino", seq=64)
    assert len(fused.timeline.events) < len(predicted(path, seq=64).timeline.events)
    with pytest.raises(GpuscopeError, match="engine"):
        predicted(path, "h200", engine="openvino", seq=64)
    with pytest.raises(GpuscopeError, match="engine"):
        predicted(path, engine="tensorrt", seq=64)


def test_a_profile_of_the_graph_is_compared_and_of_another_refused(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    other = models.attention(tmp_path / "attention.onnx")
    own, strange = (
        gs.load(profile(path, tmp_path, batch=32)), gs.load(profile(other, tmp_path, seq=8)),
    )  # fmt: skip
    for on in (ON, "h200"):
        run = predicted(path, on, batch=32)
        assert gs.compare(run, own).b_s == own.analysis.step_s
        for pair in ((run, strange), (strange, run)):
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
        (["--on", ON, "--dtype", "float16"], "not run in float16"),
        (["--on", "intel-xeon-8592:99"], "64 cores"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, more: list[str], said: str) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    command = [sys.executable, "-m", "gpuscope", "predict", str(path), "--set", "batch=8", *more]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 2
    assert said in " ".join(ran.stderr.split())
