"""Measured runs in the document: what a recording knows goes out and comes back."""

from __future__ import annotations

import gzip
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from run_builders import bare_run

from gpuscope.atomic import write_document
from gpuscope.errors import InputFileError
from gpuscope.run import Measurement
from gpuscope.run.document import run_document
from gpuscope.run.reader import load_runs, read_run
from gpuscope.timeline.types import (
    Collective,
    Events,
    Lane,
    Recorded,
    RecordedDevice,
    Source,
    Timeline,
)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def recorded_timeline() -> Timeline:
    """A launch, an operator around it, and two kernels of which one was launched by nobody."""
    none = _ints(-1, -1, -1, -1)
    events = Events(
        start_ns=_ints(0, 5, 20, 40),
        duration_ns=_ints(30, 3, 10, 500),
        name=_ints(0, 1, 2, 2),
        kind=_ints(4, 5, 0, 0),
        lane=_ints(0, 0, 1, 1),
        op=none,
        kernel=none,
        correlation=_ints(-1, 9, 9, -1),
    )
    recorded = Recorded(
        event=_ints(2, 3),
        grid=np.array([[4, 1, 1], [8, 2, 1]]),
        block=np.full((2, 3), 32),
        registers=_ints(40, -1),
        shared_bytes=_ints(0, 1024),
        occupancy=np.array([0.5, np.nan]),
        nbytes=_ints(-1, -1),
        stream=_ints(7, 7),
        graph=_ints(-1, 3),
        launch=_ints(1, -1),
        operator=_ints(0, -1),
        collective=_ints(-1, 0),
        sequence=_ints(-1, 12),
    )
    source = Source(
        rank=0,
        path="t.json",
        devices=(RecordedDevice(0, "X", compute_capability=(9, 0)),),
        groups={"default": (0, 1)},
        counts={"kernel": 2},
        base_ns=10**18 + 1,
    )
    return Timeline(
        names=("aten::mm", "cudaLaunchKernel", "gemm"),
        lanes=(Lane("host", "host", 0, -1), Lane("stream 7", "stream")),
        events=events,
        origin="measured",
        recorded=recorded,
        sources=(source,),
        collectives=(Collective("all_reduce", "default", 2, (0, 1), "float32", 8, 8),),
    )


def _same(a: Recorded, b: Recorded) -> bool:
    return all(
        np.array_equal(getattr(a, f.name), getattr(b, f.name), equal_nan=f.name == "occupancy")
        for f in fields(Recorded)
    )


def measured_run():
    how = Measurement(
        confidence=0.96,
        blocks_s=(0.1, 0.2),
        steps_per_block=3,
        settled_after=0,
        throttle_reasons=(),
        throttled_share={"power": 0.5},
        machine={"torch": "2"},
    )
    return replace(bare_run(), origin="measured", timeline=recorded_timeline(), measurement=how)


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_a_measured_run_comes_back(tmp_path: Path, name: str) -> None:
    run = measured_run()
    write_document(run_document(run), tmp_path / name)
    (again,) = load_runs(tmp_path / name)
    assert again.measurement == run.measurement
    assert again.timeline.sources == run.timeline.sources
    assert again.timeline.collectives == run.timeline.collectives
    assert _same(again.timeline.recorded, run.timeline.recorded)
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") is name.endswith("gz")


def test_equal_runs_make_equal_files(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_document(run_document(measured_run()), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_rows_follow_the_events_that_are_kept() -> None:
    """Of four events the two longest stay: the operator and the second kernel."""
    document = run_document(measured_run(), max_events=2)
    kept = read_run(document).timeline.recorded
    assert kept.event.tolist() == [1]
    assert kept.launch.tolist() == [-1]
    assert kept.grid.tolist() == [[8, 2, 1]]
    assert kept.sequence.tolist() == [12]


def test_unknown_device_time_is_not_a_number_but_null_in_json() -> None:
    document = run_document(replace(bare_run(), device_busy_s=float("nan")))
    assert document["device_busy_s"] is None
    assert np.isnan(read_run(document).device_busy_s)


def test_documents_without_the_new_fields_are_read() -> None:
    document = run_document(bare_run())
    del document["measurement"]
    for name in ("recorded", "sources", "collectives"):
        del document["timeline"][name]
    run = read_run(document)
    assert run.measurement is None
    assert run.timeline.recorded is None


@pytest.mark.parametrize("damage", ["short", "outside"])
def test_a_damaged_recording_is_refused(damage: str) -> None:
    document = run_document(measured_run())
    recorded = document["timeline"]["recorded"]
    if damage == "short":
        recorded["stream"] = [7]
    else:
        recorded["launch"] = [1, 99]
    with pytest.raises(InputFileError):
        read_run(document)


def test_a_compressed_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    write_document(run_document(measured_run()), path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputFileError, match="cut off"):
        load_runs(path)
    path.write_bytes(gzip.compress(b"[1]"))
    with pytest.raises(InputFileError, match="not a gpuscope run"):
        load_runs(path)
