"""`load`: whatever was recorded becomes one run."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from nsys_databases import make, step_tables
from recordings import folder, trace, write
from snapshots import MIB, training

import gpuscope as gs
from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError
from gpuscope.loading import read_timelines
from gpuscope.timeline.types import DEVICE_KINDS


def test_a_trace_is_a_measured_run(tmp_path: Path) -> None:
    run = gs.load(write(tmp_path / "job.pt.trace.json.gz", trace(None)))
    assert run.origin == "measured"
    assert run.name == "job"
    assert run.ranks == (0,)
    assert run.step_time_s == pytest.approx(990e-6)
    assert run.step_time_interval_s == pytest.approx((990e-6, 990e-6))
    assert run.device_busy_s == pytest.approx(700e-6, rel=0.2)
    assert run.device_id == gs.device("h200").id
    assert run.energy_j is None
    assert run.peak_memory_bytes is None
    time = run.analysis.time[0]
    assert time.compute_s == pytest.approx(1200e-6, abs=1e-12)
    assert time.communication_s == pytest.approx(900e-6, abs=1e-12)
    assert sum(share.time_s for share in run.analysis.classes) == pytest.approx(run.analysis.step_s)


def test_a_folder_of_ranks_is_one_run(tmp_path: Path) -> None:
    run = gs.load(folder(tmp_path))
    assert run.ranks == (0, 1, 2, 3)
    assert run.name == tmp_path.name
    assert run.target.startswith("4× NVIDIA H200")
    assert [source.rank for source in run.timeline.sources] == [0, 1, 2, 3]
    # The late rank computes longest and waits least.
    times = run.analysis.time
    assert times[2].compute_s > times[0].compute_s
    assert times[2].communication_s < times[0].communication_s


def test_globs_and_lists_are_the_same_run(tmp_path: Path) -> None:
    folder(tmp_path)
    whole = gs.load(tmp_path).to_dict()["analysis"]
    assert gs.load(str(tmp_path / "rank*.gz")).to_dict()["analysis"] == whole
    assert gs.load(sorted(tmp_path.iterdir(), reverse=True)).to_dict()["analysis"] == whole


def test_worker_processes_give_the_same_run(tmp_path: Path) -> None:
    folder(tmp_path)
    one = gs.load(tmp_path, workers=1)
    two = gs.load(tmp_path, workers=2)
    assert one.to_dict() == two.to_dict()


@pytest.mark.slow
def test_ray_gives_the_same_run(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    folder(tmp_path)
    try:
        distributed = gs.load(tmp_path, engine="ray", workers=2)
        assert distributed.to_dict() == gs.load(tmp_path).to_dict()
        (tmp_path / "rank9.json").write_text('{"schemaVersion": 1, "traceEvents": 5}')
        with pytest.raises(InputFileError):
            gs.load(tmp_path, engine="ray", workers=2)
    finally:
        ray.shutdown()


def test_progress_is_told(tmp_path: Path) -> None:
    told = []
    gs.load(folder(tmp_path), on_progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


# -- ranks ----------------------------------------------------------------------------------------


def test_the_files_word_on_its_rank_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", trace(3))
    write(tmp_path / "rank1.json", trace(5))
    assert gs.load(tmp_path).ranks == (3, 5)


def test_files_without_a_rank_are_numbered_and_told(tmp_path: Path) -> None:
    for name in ("b.json", "a.json"):
        write(tmp_path / name, trace(None))
    run = gs.load(tmp_path)
    assert run.ranks == (0, 1)
    assert run.timeline.sources[0].path.endswith("a.json")
    assert any("do not say their rank" in line for line in run.assumptions)


def test_a_rank_that_comes_twice_is_left_out_and_told(tmp_path: Path) -> None:
    write(tmp_path / "a.json", trace(1))
    write(tmp_path / "b.json", trace(1))
    write(tmp_path / "c.json", trace(0))
    run = gs.load(tmp_path)
    assert run.ranks == (0, 1)
    assert any("b.json (rank 1)" in line for line in run.assumptions)


def test_only_some_ranks(tmp_path: Path) -> None:
    assert gs.load(folder(tmp_path), ranks={1, 2}).ranks == (1, 2)
    with pytest.raises(InvalidValueError, match="There is no rank 9"):
        gs.load(tmp_path, ranks={9})


def test_what_is_no_trace_in_a_folder_is_told(tmp_path: Path) -> None:
    (folder(tmp_path) / "notes.txt").write_text("hello")
    run = gs.load(tmp_path)
    assert any("notes.txt" in line for line in run.assumptions)


# -- steps and device -----------------------------------------------------------------------------


def test_only_some_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", trace(0, steps=5))
    run = gs.load(path, steps=(1, 2))
    assert len(run.timeline.steps) == 2
    assert run.timeline.steps[0].start_ns == 1_000_000
    with pytest.raises(InvalidValueError, match=r"There are 5, numbered from 0"):
        gs.load(path, steps=(4, 7))


def test_the_device_may_be_named(tmp_path: Path) -> None:
    document = trace(0)
    document["deviceProperties"] = []
    path = write(tmp_path / "t.json", document)
    assert gs.load(path).device_id == ""
    assert gs.load(path, on="a100").device_id == gs.device("a100").id
    with pytest.raises(UnknownNameError):
        gs.load(path, on="h2000")


def test_the_step_time_is_the_median(tmp_path: Path) -> None:
    document = trace(0, steps=5)
    marks = [e for e in document["traceEvents"] if e["name"].startswith("ProfilerStep")]
    marks[4]["dur"] = 5000
    run = gs.load(write(tmp_path / "t.json", document))
    assert run.step_time_s == pytest.approx(990e-6)
    low, high = run.step_time_interval_s
    assert low == pytest.approx(990e-6)
    assert high == pytest.approx(990e-6 + (5000e-6 - 990e-6) * 0.6)


# -- very many ranks ------------------------------------------------------------------------------


def test_of_very_many_ranks_only_those_that_explain_are_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path, ranks=6, late=4)
    whole, _ = read_timelines(tmp_path)
    monkeypatch.setattr("gpuscope.loading.recordings.FULL_BYTES", 0)
    run = gs.load(tmp_path)
    timeline = run.timeline
    hosts = {
        timeline.lanes[lane].rank
        for lane in np.unique(timeline.events.lane[timeline.events.kind >= DEVICE_KINDS])
    }
    assert hosts == {0, 4}
    assert any("6 ranks are too large to keep whole" in line for line in run.assumptions)
    work = timeline.events.kind < DEVICE_KINDS
    assert work.sum() == (whole.events.kind < DEVICE_KINDS).sum()
    assert len(run.timeline.recorded) == len(whole.recorded)
    complete = gs.analyze(whole)
    for rank, time in run.analysis.time.items():
        assert time.busy_s == complete.time[rank].busy_s
        assert time.communication_s == complete.time[rank].communication_s


# -- other kinds ----------------------------------------------------------------------------------


def test_an_nsys_export(tmp_path: Path) -> None:
    run = gs.load(make(tmp_path / "report.sqlite", step_tables()))
    assert run.name == "report"
    assert run.device_id == gs.device("h200").id
    assert run.step_time_s == pytest.approx(1_010e-9)


def test_a_memory_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(training()))
    run = gs.load(path, on="h200")
    assert math.isnan(run.step_time_s)
    assert run.peak_memory_bytes == 24 * MIB
    assert run.reserved_memory_bytes == 38 * MIB
    assert run.analysis.memory.at_peak["activation"] == 16 * MIB
    assert run.analysis.memory.capacity_bytes == gs.device("h200").memory_usable_bytes
    assert run.analysis.findings[0].kind == "fragmented_memory"
    document = run.to_dict()
    assert document["step_time_s"] is None
    json.dumps(document, allow_nan=False)


def test_a_saved_run(tmp_path: Path) -> None:
    run = gs.load(write(tmp_path / "t.json", trace(0)))
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(run.to_dict()))
    again = gs.load(saved)
    assert again.step_time_s == run.step_time_s
    assert again.analysis.time == run.analysis.time


def test_a_saved_snapshot_stays_without_times(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(training()))
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(gs.load(path).to_dict()))
    assert math.isnan(gs.load(saved).step_time_s)


def test_kinds_that_do_not_go_together(tmp_path: Path) -> None:
    write(tmp_path / "t.json", trace(0))
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(training()))
    with pytest.raises(InvalidValueError, match="kineto, snapshot"):
        gs.load([tmp_path / "t.json", tmp_path / "s.pickle"])


@pytest.mark.parametrize("workers", [None, 2])
def test_wrong_files_are_clear_errors(tmp_path: Path, workers: int | None) -> None:
    with pytest.raises(InputFileError, match="There is no file"):
        gs.load(tmp_path / "none.json")
    with pytest.raises(InputFileError, match="holds no trace"):
        gs.load(tmp_path)
    folder(tmp_path)
    (tmp_path / "rank7.json").write_text('{"schemaVersion": 1, "traceEvents": 5}')
    with pytest.raises(InputFileError, match=r"rank7\.json") as caught:
        gs.load(tmp_path, workers=workers)
    assert caught.value.next_step


def test_wrong_engines_and_workers(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", trace(0))
    with pytest.raises(UnknownNameError, match="engine 'spark'"):
        gs.load(path, engine="spark")
    with pytest.raises(InvalidValueError, match="0 workers"):
        gs.load(path, workers=0)


def test_a_folder_gives_its_name_to_one_trace_too(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    write(tmp_path / "before" / "rank-0.json", trace(0))
    assert gs.load(tmp_path / "before").name == "before"
    assert gs.load(tmp_path / "before" / "rank-0.json").name == "rank-0"
