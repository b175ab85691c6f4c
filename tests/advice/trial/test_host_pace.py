"""The host's pace before predicting: when it is measured, what of it is used, what a failure does.

The bench is a recorded one; running it takes a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.advice.trial import host_pace
from gpuscope.advice.trial.candidates import Asked, find_candidates
from gpuscope.advice.trial.host_pace import BENCHED, FILE, SAVED, HostBench, measure_host
from gpuscope.document.text import render
from gpuscope.errors import InputFileError, UnsupportedError
from gpuscope.hardware import CalibratedValue, Calibration, Distance, calibration_for, device
from gpuscope.hardware.own import applied, load_own
from gpuscope.measurement.bench.store import load_bench
from gpuscope.measurement.calibrate import save_as_this, save_calibration

torch = pytest.importorskip("torch")

RECORDED = Path(__file__).parents[3] / "validation/recordings/h200/newest_host"
"""A full bench of another H200's host, its calls 1.3 times as slow as the catalogue's."""

H200 = device("h200")

SCRIPT = """
import torch

def build():
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)]).cuda()
    x = torch.randn(8, 64, device="cuda")

    def step():
        return model(x).sum()

    return step
"""


class _Gpu:
    is_gpu = True
    name = "NVIDIA H200"
    torch_name = "cuda:0"

    def __init__(self, known: Any = H200) -> None:
        self._known = known

    def catalogue_device(self) -> Any:
        return self._known


GPU: Any = _Gpu()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_HOME", str(tmp_path / "home"))


@pytest.fixture
def benched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that "the bench" wrote: a host that takes half more for everything."""
    made: list[Path] = []

    def written(accelerator: object, path: Path) -> None:
        made.append(path)
        save_calibration(slow_host(), path)

    monkeypatch.setattr(host_pace, "_benched", written)
    return made


def slow_host(times: float = 1.5) -> Calibration:
    base = calibration_for(H200)
    entries = [
        (name, replace(e, value=e.value * times, low=e.low * times, high=e.high * times))
        for name, e in base.entries
        if name.startswith("host.") and e.unit == "s"
    ]
    entries.append(("launch.latency_s", CalibratedValue(9e-6, "s", "measured", 8e-6, 10e-6)))
    return replace(base, entries=tuple(sorted(entries)))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Its `run_bench` gives what was recorded, without programs, whose fit takes seconds."""
    asked: list[Any] = []
    full = load_bench(RECORDED)

    def run(options: Any) -> Any:
        asked.append(options)
        return replace(full, points=tuple(p for p in full.points if p.family != "program"))

    monkeypatch.setattr("gpuscope.measurement.bench.run.run_bench", run)
    monkeypatch.setattr("gpuscope.measurement.accelerator.choose_accelerator", lambda name: GPU)
    return asked


# -- what is measured ------------------------------------------------------------------------------


def test_a_bench_becomes_constants_of_the_host_alone(tmp_path: Path, recorded: list[Any]) -> None:
    measure_host("cuda:0", tmp_path / FILE)
    (options,) = recorded
    assert options.quick
    assert set(options.only) == {"host", "launch"}
    own = load_own(tmp_path / FILE)
    assert own.device_id == H200.id
    assert "NVIDIA H200" in own.measured_with
    assert "processor Intel" in own.measured_with
    assert all(name.startswith(("host.", "launch.")) for name in own.names())
    base, found = calibration_for(H200), applied(own, H200)
    assert found.value("host.op.add.plain_s") == pytest.approx(7.42e-6, rel=1e-3)
    assert found.value("host.op.add.plain_s") > 1.3 * base.value("host.op.add.plain_s")
    assert {n: found.value(n) for n in base.names("matmul")} == {
        n: base.value(n) for n in base.names("matmul")
    }


def test_kernels_that_are_carried_stay_called_so(tmp_path: Path, recorded: list[Any]) -> None:
    measure_host("cuda:0", tmp_path / FILE)
    h100 = device("h100")
    own = replace(load_own(tmp_path / FILE), device_id=h100.id)
    assert applied(own, h100).distance == calibration_for(h100).distance is not Distance.SAME_DEVICE


@pytest.mark.slow
def test_made_up_programs_are_fitted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = load_bench(RECORDED)
    monkeypatch.setattr("gpuscope.measurement.bench.run.run_bench", lambda options: full)
    monkeypatch.setattr("gpuscope.measurement.accelerator.choose_accelerator", lambda name: GPU)
    measure_host("cuda:0", tmp_path / FILE)
    own, base = load_own(tmp_path / FILE), calibration_for(H200)
    assert own.value("host.dispatch_s") > 1.3 * base.value("host.dispatch_s")
    assert "made-up programs" in own.entry("host.scale").note


def test_a_bench_without_a_call_says_nothing_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = load_bench(RECORDED)
    runs = (replace(full.runs[0], skipped="It failed: no memory."),)
    none = replace(full, points=(), runs=runs)
    monkeypatch.setattr("gpuscope.measurement.bench.run.run_bench", lambda options: none)
    monkeypatch.setattr("gpuscope.measurement.accelerator.choose_accelerator", lambda name: GPU)
    with pytest.raises(UnsupportedError, match="no memory"):
        measure_host("cuda:0", tmp_path / FILE)
    assert not (tmp_path / FILE).exists()


def test_a_device_without_a_catalogue_entry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gpuscope.measurement.accelerator.choose_accelerator", lambda name: _Gpu(None)
    )
    with pytest.raises(UnsupportedError, match="not in the catalogue"):
        measure_host("cuda:0", tmp_path / FILE)


# -- when ------------------------------------------------------------------------------------------


def test_a_host_that_nobody_benched_is_measured(tmp_path: Path, benched: list[Path]) -> None:
    said: list[str] = []
    bench = HostBench(tmp_path, 600.0, say=said.append, share=tmp_path / "timing")
    found = bench.pace(GPU, H200.id)
    assert benched == [found.calibration] == [tmp_path / FILE]
    assert found.note == BENCHED
    assert len(said) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wanted": False}, "--no-bench"),
        ({"budget_s": 299.0}, "5 minutes"),
        ({"going_on": True}, "gone on with"),
    ],
)
def test_where_it_is_not_measured_the_note_says_why(
    tmp_path: Path, benched: list[Path], change: dict[str, Any], why: str
) -> None:
    found = replace(HostBench(tmp_path, 600.0), **change).pace(GPU, H200.id)
    assert benched == []
    assert found.calibration is None
    assert why in found.note
    assert "gpuscope bench --quick --save" in found.note
    assert "gpuscope bench --quick --save" in render(found.note, "zh")


@pytest.mark.parametrize("on", ["this", "2xthis"])
def test_a_machine_that_was_benched_is_not_benched_again(
    tmp_path: Path, benched: list[Path], on: str
) -> None:
    found = HostBench(tmp_path, 600.0).pace(GPU, on)
    assert (found.calibration, found.note, benched) == (None, SAVED, [])


def test_a_ladder_that_goes_on_keeps_its_host(tmp_path: Path, benched: list[Path]) -> None:
    HostBench(tmp_path, 600.0).pace(GPU, H200.id)
    again = HostBench(tmp_path, 60.0, going_on=True).pace(GPU, H200.id)
    assert len(benched) == 1
    assert (again.calibration, again.note) == (tmp_path / FILE, BENCHED)


@pytest.mark.parametrize(
    ("text", "why"),
    [("no TOML", "Expected '='"), ('device = "nvidia-a100-sxm-80gb"\n', "another device")],
)
def test_a_file_that_is_not_of_this_host_is_not_used(
    tmp_path: Path, benched: list[Path], text: str, why: str
) -> None:
    (tmp_path / FILE).write_text(text)
    found = HostBench(tmp_path, 600.0, going_on=True).pace(GPU, H200.id)
    assert found.calibration is None
    assert why in found.note


# -- failures --------------------------------------------------------------------------------------


def test_a_bench_that_fails_is_told_and_survived(tmp_path: Path) -> None:
    """Really started, in a process of its own."""
    if torch.accelerator.is_available():
        pytest.skip("this machine has a GPU")
    found = HostBench(tmp_path, 600.0).pace(GPU, H200.id)
    assert found.calibration is None
    assert "There is no GPU that PyTorch can use" in found.note
    assert "There is no GPU that PyTorch can use" in render(found.note, "zh")


def test_a_bench_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_pace, "_LIMIT_S", 0.01)
    found = HostBench(tmp_path, 600.0).pace(GPU, H200.id)
    assert found.calibration is None
    assert "took longer" in found.note


def test_a_bench_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_pace, "_MODULE", "gpuscope.no_such_module")
    found = HostBench(tmp_path, 600.0).pace(GPU, H200.id)
    assert "no_such_module" in found.note


def test_a_share_that_cannot_be_is_told_too(tmp_path: Path, benched: list[Path]) -> None:
    found = HostBench(tmp_path, 600.0, share=tmp_path / "no" / "timing").pace(GPU, H200.id)
    assert found.calibration is None
    assert "cannot be opened" in found.note


# -- what it changes -------------------------------------------------------------------------------


def _predicted_s(folder: Path, host: HostBench | None, **asked: Any) -> tuple[float, Any]:
    (folder / "train.py").write_text(SCRIPT)
    given = Asked(only=("tf32",), **asked)
    found = find_candidates(f"{folder / 'train.py'}:build", given, GPU, host=host)
    assert found.advice is not None
    return found.advice.case.run.step_time_s, found.notes


def test_predictions_are_for_the_measured_host(tmp_path: Path, benched: list[Path]) -> None:
    catalogue_s, _ = _predicted_s(tmp_path, None)
    left_out_s, left_out = _predicted_s(tmp_path, HostBench(tmp_path, 600.0, wanted=False))
    own_s, notes = _predicted_s(tmp_path, HostBench(tmp_path, 600.0))
    assert left_out_s == catalogue_s
    assert "--no-bench" in left_out[0]
    assert notes == (BENCHED,)
    assert own_s == pytest.approx(1.5 * catalogue_s, rel=0.1), "twenty small kernels: all host"


def test_a_device_that_was_asked_for_needs_no_bench(tmp_path: Path, benched: list[Path]) -> None:
    _, notes = _predicted_s(tmp_path, HostBench(tmp_path, 600.0), on="h200")
    assert (benched, notes) == ([], ())


def test_what_the_user_saved_is_predicted_for(tmp_path: Path, benched: list[Path]) -> None:
    catalogue_s, _ = _predicted_s(tmp_path, None)
    save_as_this(slow_host(2.0))
    own_s, notes = _predicted_s(tmp_path, HostBench(tmp_path, 600.0))
    assert (benched, notes) == ([], (SAVED,))
    assert own_s == pytest.approx(2 * catalogue_s, rel=0.1)


def test_other_processes_predict_for_the_same_host(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    path = save_calibration(slow_host(), tmp_path / FILE)
    made = Forecaster(f"{tmp_path / 'train.py'}:build", H200.id, calibration=path, processes=2)
    assert made._workers is not None
    assert made._workers._make.keywords["calibration"] == path
    assert made.constants == applied(load_own(path), H200)


def test_wrong_names_are_told_before_the_bench(tmp_path: Path, benched: list[Path]) -> None:
    from gpuscope.errors import UnknownNameError

    with pytest.raises(UnknownNameError):
        _predicted_s(tmp_path, HostBench(tmp_path, 600.0), allow=("int3",))
    with pytest.raises(InputFileError):
        find_candidates(
            "train.py", Asked(advice=tmp_path / "none.json"), GPU, host=HostBench(tmp_path, 600.0)
        )
    assert benched == []
