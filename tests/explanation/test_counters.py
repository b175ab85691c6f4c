"""Reports of Nsight Compute, built to its documentation (no recorded report lies here)."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import gpuscope as gs
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.explanation.counters import counters
from gpuscope.explanation.nsight_compute.beside import beside, kernels_of
from gpuscope.explanation.nsight_compute.report import read_report
from gpuscope.explanation.nsight_compute.types import Metric, counted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

import ncu_tables as made

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces" / "h200"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("page", [made.details, made.raw])
def test_both_pages_tell_the_same(tmp_path: Path, page: Any) -> None:
    found = read_report(written(tmp_path, page(made.LAUNCHES)))
    assert len(found) == 3
    for launch, true in zip(found, made.LAUNCHES, strict=True):
        assert (launch.symbol, launch.grid, launch.block) == (true.name, true.grid, true.block)
        assert launch.time_s == pytest.approx(true.time_us * 1e-6)
        assert launch.dram_bytes == pytest.approx(true.megabytes * 1e6, rel=1e-5)
        assert launch.dram == pytest.approx(true.dram / 100)
        assert launch.occupancy == pytest.approx(true.occupancy / 100)
        assert (launch.registers, launch.waves) == (true.registers, true.waves)
        assert launch.clock_hz == pytest.approx(1.5e9)
        assert launch.tensor is None


def test_an_unknown_unit_or_no_number_is_no_figure() -> None:
    found = [Metric("Duration", "fortnight", 1.0), Metric("L2 Hit Rate", "%", float("inf"))]
    assert counted("k", None, None, found) == counted("k", None, None, ())


class _Metric:
    def __init__(self, value: float, unit: str) -> None:
        self._value, self._unit = value, unit

    def as_double(self) -> float:
        return self._value

    def unit(self) -> str:
        return self._unit


class _Action:
    """Stands for an action of NVIDIA's `ncu_report`."""

    _metrics: ClassVar = {
        "gpu__time_duration.sum": (5000.0, "ns"),
        "launch__grid_dim_x": (32.0, ""), "launch__grid_dim_y": (8.0, ""),
        "launch__grid_dim_z": (1.0, ""), "unknown": (1.0, ""),
    }  # fmt: skip

    def name(self) -> str:
        return "gemm"

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> _Metric:
        return _Metric(*self._metrics[name])


def test_a_report_is_read_by_nvidias_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Range:
        num_actions = staticmethod(lambda: 1)
        action_by_idx = staticmethod(lambda at: _Action())

    class Context:
        num_ranges = staticmethod(lambda: 1)
        range_by_idx = staticmethod(lambda at: Range)

    module = ModuleType("ncu_report")
    module.load_report = lambda path: Context  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ncu_report", module)
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(b"\0")
    (launch,) = read_report(path)
    assert (launch.symbol, launch.time_s, launch.grid, launch.block) == (
        "gemm",
        5e-6,
        (32, 8, 1),
        None,
    )


def test_without_the_module_the_command_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(b"\0")
    with pytest.raises(InputFileError, match="own module") as caught:
        read_report(path)
    assert "ncu --import" in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no report"), ('"ID","Process ID","Kernel Name"\n', "no kernel launch")],
)
def test_a_file_without_launches_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputFileError, match=words):
        read_report(written(tmp_path, text))


def test_a_kernel_is_chosen_by_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, made.raw(made.LAUNCHES))
    told = counters(path, kernel="SGEMM")
    (row,) = told.sections[0].blocks[0].rows
    assert row[1] == 2
    assert row[4] == pytest.approx(2434.5e-6)
    with pytest.raises(InvalidValueError, match="There are: "):
        counters(path, kernel="conv")


def test_launches_are_matched_with_a_recordings_kernels(tmp_path: Path) -> None:
    run = gs.load(TRACES / "compute_bound")
    kernels = kernels_of(run)
    events = run.timeline.events
    recorded = run.timeline.recorded
    assert recorded is not None
    launches = []
    for row, at in enumerate(recorded.event.tolist()):
        if events.kernel[at] >= 0 and events.kind[at] == 0 and len(launches) < 12:
            name = run.timeline.names[events.name[at]]
            dims = [tuple(getattr(recorded, of)[row].tolist()) for of in ("grid", "block")]
            launches.append(
                replace(made.LAUNCHES[0], name=name, grid=dims[0], block=dims[1],
                        time_us=events.duration_ns[at] / 1e3)
            )  # fmt: skip
    path = written(tmp_path, made.raw(tuple(launches)))
    found = beside(read_report(path), kernels)
    assert [kernel is not None for kernel in found] == [True] * len(launches)
    told = counters(path, run=run)
    times = [(row[2], row[3]) for row in told.sections[1].blocks[0].rows]
    for mine, theirs in times:
        assert mine == pytest.approx(theirs, rel=0.05)
    assert beside(read_report(path), []) == [None] * len(launches)
