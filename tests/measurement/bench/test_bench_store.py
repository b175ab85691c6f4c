"""A bench as a folder: saved whole, loaded the same, whatever happened while it was written."""

from __future__ import annotations

import contextlib
import gzip
import json
import tomllib
from dataclasses import replace

import pytest
from bench_builders import point, result

from gpuscope.errors import InputFileError, MissingPackageError
from gpuscope.measurement.bench.store import (
    PARTIAL,
    POINTS,
    SUMMARY,
    PointLog,
    failure_document,
    load_bench,
    point_document,
    point_from,
    save_bench,
)
from gpuscope.measurement.bench.types import BenchRun, Failure

FULL = result(
    failures=(Failure("matmul", "mm", {"m": 1}, "Out of memory.", lost=True),),
    warnings=("Busy.",),
    quick=True,
    runs=(BenchRun("matmul", 1.5, 4), BenchRun("peer", 0.0, 0, 0, "No.")),
)


def test_what_is_saved_is_loaded(tmp_path) -> None:
    save_bench(FULL, tmp_path / "bench")
    assert load_bench(tmp_path / "bench") == FULL
    assert load_bench(tmp_path / "bench" / SUMMARY) == FULL
    assert sorted(p.name for p in (tmp_path / "bench").iterdir()) == [POINTS, SUMMARY]


def test_the_summary_reads_without_us(tmp_path) -> None:
    save_bench(FULL, tmp_path)
    summary = tomllib.loads((tmp_path / SUMMARY).read_text("utf-8"))
    assert summary["schema"] == "gpuscope.bench"
    assert summary["machine"]["device"] == "NVIDIA H200"
    assert summary["points"] == len(FULL.points)
    first = summary["figures"][0]
    assert first["key"] == "matmul"
    assert first["detail"]["m"] == 8192
    assert first["fraction"] == pytest.approx(0.8)


def test_the_points_are_a_table_with_rates(tmp_path) -> None:
    save_bench(FULL, tmp_path)
    lines = gzip.decompress((tmp_path / POINTS).read_bytes()).decode("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == len(FULL.points) + 1
    assert rows[0]["flops_per_s"] == pytest.approx(791.6e12)
    assert rows[0]["kernels"][0]["registers"] == 168
    assert rows[-1]["error"] == "Out of memory."
    assert "median_s" not in rows[-1]


def test_a_folder_of_earlier_versions_is_read_and_replaced(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    save_bench(FULL, tmp_path)
    (tmp_path / POINTS).unlink()
    rows = [{**point_document(p), "error": None, "lost": None} for p in FULL.points]
    rows += [failure_document(each) for each in FULL.failures]
    packed = {"params": json.dumps, "values": lambda value: json.dumps(value or {})}
    for row in rows:
        row.update({name: pack(row.get(name)) for name, pack in packed.items()})
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "points.parquet")
    assert load_bench(tmp_path) == FULL
    save_bench(FULL, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [POINTS, SUMMARY]


def test_what_reads_earlier_versions_is_told(tmp_path, monkeypatch) -> None:
    save_bench(FULL, tmp_path)
    (tmp_path / POINTS).rename(tmp_path / "points.parquet")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="pyarrow") as caught:
        load_bench(tmp_path)
    assert "gpuscope[parquet]" in str(caught.value)


def test_lost_points_are_told(tmp_path) -> None:
    save_bench(FULL, tmp_path)
    lines = gzip.decompress((tmp_path / POINTS).read_bytes()).splitlines(keepends=True)
    (tmp_path / POINTS).write_bytes(gzip.compress(b"".join(lines[:-1])))
    with pytest.raises(InputFileError, match="cannot be read"):
        load_bench(tmp_path)


def test_every_field_of_a_point_survives() -> None:
    full = point(
        "b",
        "f",
        {"a": 1, "b": True, "c": "x", "d": 0.5},
        1e-6,
        values={"power_w": 3.5},
        throttled=("hot",),
        samples_s=(1e-6, 2e-6),
        flops=5.0,
        bytes=6.0,
        bound="link",
        bound_s=1e-7,
    )
    assert point_from(json.loads(json.dumps(point_document(full)))) == full


def test_an_unfinished_run_loads_up_to_its_last_whole_line(tmp_path) -> None:
    log = PointLog(tmp_path, replace(FULL, points=(), failures=()))
    for each in FULL.points:
        log.point(each)
    log.failure(FULL.failures[0])
    log.close()
    whole = load_bench(tmp_path)
    assert whole.interrupted
    assert whole.points == FULL.points
    assert whole.failures == FULL.failures
    assert whole.machine == FULL.machine
    text = (tmp_path / PARTIAL).read_text("utf-8")
    (tmp_path / PARTIAL).write_text(text[: text.rindex("Out of memory")])  # killed while writing
    cut = load_bench(tmp_path)
    assert cut.points == FULL.points
    assert cut.failures == ()


def test_a_finished_run_leaves_no_unfinished_one(tmp_path) -> None:
    PointLog(tmp_path, replace(FULL, points=())).close()
    save_bench(FULL, tmp_path)
    assert not (tmp_path / PARTIAL).exists()


@pytest.mark.parametrize("name", [SUMMARY, POINTS, PARTIAL])
@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"{}\n", b"schema = 1\n", b"[1, 2]\n"])
def test_damaged_files_are_told(tmp_path, name: str, content: bytes) -> None:
    if name == PARTIAL:
        PointLog(tmp_path, FULL).close()
    else:
        save_bench(FULL, tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputFileError):
        load_bench(tmp_path)


def test_what_is_not_there_is_told(tmp_path) -> None:
    with pytest.raises(InputFileError, match="does not exist"):
        load_bench(tmp_path / "nothing")
    with pytest.raises(InputFileError, match="holds no bench"):
        load_bench(tmp_path)


def test_a_newer_version_is_refused(tmp_path) -> None:
    save_bench(FULL, tmp_path)
    text = (tmp_path / SUMMARY).read_text("utf-8")
    (tmp_path / SUMMARY).write_text(text.replace("version = 1\n", "version = 99\n", 1), "utf-8")
    with pytest.raises(InputFileError, match="newer gpuscope"):
        load_bench(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for write in (save_bench, lambda made, folder: PointLog(folder, made)):
        with pytest.raises(InputFileError, match="Cannot write"):
            write(FULL, tmp_path / "file" / "bench")


@pytest.mark.parametrize(
    "change",
    [{"median_s": "soon"}, {"params": 7}, {"params": {}}, {"bound_s": [1]}, {"kernels": [{}]}],
)
def test_values_of_a_saved_point_are_checked(change: dict, tmp_path) -> None:
    """Before, the first view of them fell."""
    point = {"bench": "memory", "family": "copy", "params": {"op": "copy", "mib": 64.0}}
    point |= {"state": "hot", "median_s": 1e-4, "bytes": 1e6}
    head = {"schema": "gpuscope.bench", "version": 1, "machine": {}, "device_id": ""}
    for given, refused in ((point, False), (point | change, True)):
        (tmp_path / "points.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(given)}\n")
        with pytest.raises(InputFileError) if refused else contextlib.nullcontext():
            load_bench(tmp_path)
