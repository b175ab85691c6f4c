"""Whole runs on a pretend GPU: saved, interrupted, resumed, refused."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("torch")

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, UnsupportedError
from gpuscope.measurement.bench import registry
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.registry import Bench
from gpuscope.measurement.bench.run import Options, check_profiler, folder_for, run_bench
from gpuscope.measurement.bench.store import POINTS, SUMMARY, load_bench
from gpuscope.measurement.bench.types import point_of


@pytest.fixture
def stage(gpu, call, monkeypatch):
    """Two small benches on the pretend GPU; what they do can be changed by a test."""

    class Stage:
        device = gpu
        sizes = (1, 2)
        after_first = None

        def first(self, context):
            yield from context.time("first", [BenchCase("f", {"n": n}, call) for n in self.sizes])
            if self.after_first is not None:
                raise self.after_first

        def second(self, context):
            if not context.is_done("second", "wall", {}, "host"):
                yield point_of("second", "wall", {}, "host", [1e-3, 2e-3, 3e-3])

    made = Stage()
    benches = (
        Bench("first", Text("First"), 5, 5, "gpu", 1, made.first),
        Bench("second", Text("Second"), 5, 5, "any", 2, made.second),
        Bench("third", Text("Third"), 5, 5, "gpus", 3, made.second),
    )
    monkeypatch.setattr(
        "gpuscope.measurement.accelerator.choose_accelerator", lambda asked=None: made.device
    )
    with registry.BENCHES.replaced({each.name: each for each in benches}):
        yield made


def test_points_are_saved_and_loaded(stage, tmp_path) -> None:
    seen = []
    result = run_bench(
        folder=tmp_path / "out", progress=lambda p: seen.append((p.bench.name, p.points))
    )
    assert [(p.bench, p.state) for p in result.points] == [
        ("first", "hot"),
        ("first", "cold"),
        ("first", "hot"),
        ("first", "cold"),
        ("second", "host"),
    ]
    assert result.device_id == "nvidia-h200-sxm"
    assert [(r.name, r.points, bool(r.skipped)) for r in result.runs] == [
        ("first", 4, False),
        ("second", 1, False),
        ("third", 0, True),
    ]
    assert not result.interrupted
    assert ("first", 0) in seen
    assert ("first", 4) in seen
    assert load_bench(tmp_path / "out") == result


def test_only_what_was_asked_for(stage) -> None:
    assert {p.bench for p in run_bench(Options(only=("second",))).points} == {"second"}
    with pytest.raises(Exception, match=r"Unknown bench 'firts'.*first"):
        run_bench(Options(only=("firts",)))


def test_an_interruption_keeps_what_was_measured_and_resumes(stage, tmp_path) -> None:
    stage.after_first = KeyboardInterrupt()
    result = run_bench(folder=tmp_path)
    assert result.interrupted
    assert len(result.points) == 4
    assert load_bench(tmp_path) == result
    stage.after_first = None
    stage.sizes = (1, 2, 3)
    whole = run_bench(Options(resume=True), tmp_path)
    assert not whole.interrupted
    assert whole.points[:4] == result.points  # not measured again
    assert [p.params.get("n") for p in whole.points[4:]] == [3, 3, None]
    assert whole.started == result.started
    assert whole.seconds > result.seconds


def test_one_failing_bench_does_not_keep_the_others_from_running(stage) -> None:
    stage.after_first = ValueError("broken")
    result = run_bench()
    assert result.runs[0].skipped == "It failed: ValueError: broken"
    assert result.runs[0].points == 4
    assert result.runs[1].points == 1


def test_a_lost_device_ends_the_run_and_keeps_the_points(stage, tmp_path) -> None:
    stage.after_first = RuntimeError("CUDA error: unspecified launch failure")
    result = run_bench(folder=tmp_path)
    assert [r.name for r in result.runs] == ["first"]
    assert len(load_bench(tmp_path).points) == 4


def test_another_machines_run_is_not_resumed(stage, tmp_path) -> None:
    run_bench(folder=tmp_path)
    text = (tmp_path / SUMMARY).read_text("utf-8")
    (tmp_path / SUMMARY).write_text(text.replace("NVIDIA H200", "NVIDIA A100"), "utf-8")
    with pytest.raises(InputFileError, match="of another machine"):
        run_bench(Options(resume=True), tmp_path)


def test_settings_of_pytorch_are_put_back(stage) -> None:
    import torch

    def changes(context):
        torch.backends.cudnn.allow_tf32 = not before
        yield point_of("first", "f", {}, "host", [1.0])

    before = torch.backends.cudnn.allow_tf32
    stage.first = changes
    run_bench()
    assert torch.backends.cudnn.allow_tf32 is before


def test_a_processor_runs_what_needs_no_gpu(stage) -> None:
    from gpuscope.measurement.accelerator import Accelerator

    stage.device = Accelerator("cpu")
    result = run_bench(Options(device="cpu"))
    assert {p.bench for p in result.points} == {"second"}
    assert result.runs[0].skipped == "It needs a GPU."
    with pytest.raises(InvalidValueError, match="needs a GPU"):
        run_bench(Options(only=("first",), device="cpu"))


def test_no_gpu_says_what_can_still_be_done() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UnsupportedError, match="no GPU") as caught:
        run_bench()
    assert "--device cpu" in caught.value.next_step
    assert "--replay" in caught.value.next_step


def test_a_profiler_that_shows_kernels_is_fine(gpu) -> None:
    check_profiler(gpu)


def test_a_profiler_without_kernels_is_refused() -> None:
    from gpuscope.measurement.accelerator import Accelerator

    with pytest.raises(UnsupportedError, match="shows no kernels") as caught:
        check_profiler(Accelerator("cpu"))
    assert "ERR_NVGPUCTRPERM" in caught.value.why


def test_more_devices_than_there_are(stage) -> None:
    with pytest.raises(InvalidValueError, match="There are not 9 devices"):
        run_bench(Options(gpus=9))


def test_a_folder_is_named_after_the_machine_and_never_overwritten(
    stage, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platform.node", lambda: "Node7.example.org")
    first = folder_for(Options(quick=True), None)
    assert first.name == "bench-nvidia-h200-node7-quick"
    first.mkdir()
    (first / POINTS).write_bytes(b"")
    assert folder_for(Options(quick=True), None).name == "bench-nvidia-h200-node7-quick-2"
    assert folder_for(Options(quick=True, resume=True), None).name == first.name
    with pytest.raises(InputFileError, match="holds a bench already"):
        folder_for(Options(), first)
    assert folder_for(Options(resume=True), first) == first


def test_options_are_fixed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().quick = True  # type: ignore[misc]
