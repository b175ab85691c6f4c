"""Reports of Nsight Compute: a real one, and others built to its documentation."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import gpuscope as gs
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.explanation.counters import counters
from gpuscope.explanation.nsight_compute.beside import beside, kernels_of
from gpuscope.explanation.nsight_compute.report import read_report
from gpuscope.explanation.nsight_compute.types import Metric, counted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

import ncu_tables as made

NCU = Path(__file__).resolve().parents[1] / "data" / "ncu"
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


STAND_IN = """
METRICS = {
    "gpu__time_duration.sum": (5000.0, "ns"), "unknown": (1.0, ""),
    "launch__grid_dim_x": (32.0, ""), "launch__grid_dim_y": (8.0, ""),
    "launch__grid_dim_z": (1.0, ""),
}


class Metric:
    def __init__(self, value, unit):
        self.as_double, self.unit = lambda: value, lambda: unit


class Action:
    NameBase_DEMANGLED = 1
    name = staticmethod(lambda base: "void gemm<float>(float*)" if base == 1 else "gemm")
    metric_names = staticmethod(lambda: tuple(METRICS))
    metric_by_name = staticmethod(lambda name: Metric(*METRICS[name]))


class Range:
    num_actions = staticmethod(lambda: 1)
    action_by_idx = staticmethod(lambda at: Action)


class Report:
    num_ranges = staticmethod(lambda: 1)
    range_by_idx = staticmethod(lambda at: Range)


def load_report(path):
    if path.endswith("damaged.ncu-rep"):
        raise RuntimeError("no report")
    if path.endswith("deadly.ncu-rep"):
        import os

        os.abort()
    return Report
"""
"""Stands for NVIDIA's `ncu_report`, by its documentation."""


def test_a_report_is_read_by_nvidias_module_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ncu_report.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("r", "damaged", "deadly"):
        (tmp_path / f"{name}.ncu-rep").write_bytes(b"\0")
    (launch,) = read_report(tmp_path / "r.ncu-rep")
    assert (launch.symbol, launch.time_s) == ("void gemm<float>(float*)", 5e-6)
    assert (launch.grid, launch.block) == ((32, 8, 1), None)
    for name in ("damaged", "deadly"):
        with pytest.raises(InputFileError) as caught:
            read_report(tmp_path / f"{name}.ncu-rep")
        assert "ncu --import" in caught.value.next_step


def build():
    """The step of tests/data/ncu."""
    import torch
    from torch import nn

    parts = (nn.LayerNorm(1024), nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
    model = nn.Sequential(*parts).cuda().bfloat16()
    x = torch.randn(8192, 1024, device="cuda", dtype=torch.bfloat16)

    def step():
        model.zero_grad(set_to_none=True)
        model(x).float().square().mean().backward()

    return step


def test_a_real_report_beside_what_is_predicted() -> None:
    """Nsight Compute 2025.3 on an H200: tests/data/ncu."""
    pytest.importorskip("torch")
    launches = read_report(NCU / "raw.csv")
    assert len(launches) == 20
    assert sum(launch.time_s for launch in launches) == pytest.approx(1.1e-3, rel=0.01)
    kernels = kernels_of(gs.predict(build, on="h200"))
    pairs = [(a, b) for a, b in zip(launches, beside(launches, kernels), strict=True) if b]
    assert len(pairs) >= 18
    ratios = [launch.time_s / kernel.duration_s for launch, kernel in pairs]
    assert 1.0 < median(ratios) < 1.5  # the base clock, 1.5 GHz, and emptied caches
    waves = [launch.waves / kernel.waves for launch, kernel in pairs if kernel.waves]
    assert median(waves) == pytest.approx(1.0, rel=0.05)
    traffic = sum(launch.dram_bytes for launch, _ in pairs)
    assert traffic == pytest.approx(
        sum(kernel.read_bytes + kernel.written_bytes for _, kernel in pairs), rel=0.2
    )


def test_both_pages_of_a_real_report_agree() -> None:
    whole, some = read_report(NCU / "raw.csv"), read_report(NCU / "details.csv")
    assert len(some) > 2
    for one, two in zip(whole, some, strict=False):
        assert (one.symbol, one.grid, one.block) == (two.symbol, two.grid, two.block)
        for name in ("time_s", "dram", "sm", "l2_hits", "occupancy", "registers", "waves"):
            assert getattr(two, name) == pytest.approx(getattr(one, name), rel=0.01), name
        assert two.tensor is None


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
