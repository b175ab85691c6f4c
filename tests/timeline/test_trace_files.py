"""Finding recordings: by content, with the rank that a name tells."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import sqlite3
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.timeline.trace_files import find_traces, kind_of, rank_in_name

TRACE = json.dumps({"schemaVersion": 1, "traceEvents": []})
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "traces"


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-3.Apr_03_18_51_38.1102.pt.trace.json.gz", 3),
        ("worker7_step_12.1694128201553.pt.trace.json.gz", 7),
        ("trace_rank_12.json", 12),
        ("rank0.json", 0),
        ("Rank=5.json", 5),
        ("worker0_rank4.json", 4),
        ("mtia_inference_rank_0.json.gz", 0),
        ("node1_rank_9.json", 9),
        ("train_resnet18.json.gz", None),
        ("1694128201545.json", None),
        ("dp3.json", 3),
        ("trace-gpu_2.json", 2),
        ("tmpxdp3k", None),
        ("tmp_dp3k", None),
        ("tmpxgpu33", None),
        ("rank12b.json", None),
    ],
)
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_the_rank_in_a_folders_name() -> None:
    assert rank_in_name("run/rank_6/trace.json") == 6


def test_kinds_by_content(tmp_path: Path) -> None:
    contents = {
        "a.txt": (TRACE.encode(), "kineto"),
        "b": (gzip.compress(TRACE.encode()), "kineto"),
        "list.json": (b'[{"ph": "X", "name": "k"}]', "kineto"),
        "s.bin": (pickle.dumps({"segments": []}), "snapshot"),
        "run.json": (b'{"schema":"gpuscope.run","version":1}', "document"),
        "other.json": (b'{"hello": 1}', None),
        "text": (b"hello", None),
        "empty": (b"", None),
        "broken.gz": (b"\x1f\x8b\x08", None),
    }
    for name, (content, kind) in contents.items():
        (tmp_path / name).write_bytes(content)
        assert kind_of(tmp_path / name) == kind, name
    with sqlite3.connect(tmp_path / "n.sqlite") as database:
        database.execute("CREATE TABLE t (x)")
    assert kind_of(tmp_path / "n.sqlite") == "nsys"


def test_zstd_by_content(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "trace"
    path.write_bytes(zstandard.ZstdCompressor().compress(TRACE.encode()))
    assert kind_of(path) == "kineto"


def test_a_folder_gives_its_traces_by_rank_and_tells_the_rest(tmp_path: Path) -> None:
    for rank in (10, 2, 1):
        (tmp_path / f"rank{rank}.json").write_text(TRACE)
    (tmp_path / "notes.txt").write_text("hello")
    found = find_traces(tmp_path)
    assert [file.rank for file in found.files] == [1, 2, 10]
    assert found.notes == ("Left out, not a trace: notes.txt.",)
    assert all(file.nbytes == len(TRACE) for file in found.files)


def test_of_a_folder_with_traces_only_they_are_taken(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(TRACE)
    (tmp_path / "run.json").write_text('{"schema":"gpuscope.run","version":1}')
    (tmp_path / "memory.pickle").write_bytes(b"\x80\x04]")
    found = find_traces(tmp_path)
    assert [file.path.name for file in found.files] == ["trace.json"]
    assert found.notes == ("Left out, not a trace: memory.pickle, run.json. Name one to read it.",)


def test_subfolders_where_the_folder_itself_has_none(tmp_path: Path) -> None:
    for rank in (0, 1):
        folder = tmp_path / f"rank_{rank}"
        folder.mkdir()
        (folder / "trace.json").write_text(TRACE)
    assert [file.rank for file in find_traces(tmp_path).files] == [0, 1]


def test_a_snapshot_beside_folders_of_traces_does_not_hide_them(tmp_path: Path) -> None:
    (tmp_path / "memory.pickle").write_bytes(b"\x80\x04]")
    assert [file.kind for file in find_traces(tmp_path).files] == ["snapshot"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.me").write_text("hello")
    assert [file.kind for file in find_traces(tmp_path).files] == ["snapshot"]
    for rank in (0, 1):
        folder = tmp_path / f"rank_{rank}"
        folder.mkdir()
        (folder / "trace.json").write_text(TRACE)
    found = find_traces(tmp_path)
    assert [(file.kind, file.rank) for file in found.files] == [("kineto", 0), ("kineto", 1)]
    assert "Left out, not a trace: memory.pickle. Name one to read it." in found.notes


def test_a_glob(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(TRACE)
    assert len(find_traces(str(tmp_path / "rank*.json")).files) == 2
    with pytest.raises(InputFileError, match="Nothing matches"):
        find_traces(str(tmp_path / "*.gz"))


def test_the_same_file_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(TRACE)
    found = find_traces([path, tmp_path])
    assert len(found.files) == 1
    assert "named twice" in found.notes[0]


def test_a_rank_that_several_names_share_says_nothing(tmp_path: Path) -> None:
    for step in (10, 2):
        (tmp_path / f"worker0_step_{step}.json").write_text(TRACE)
    files = find_traces(tmp_path).files
    assert [file.rank for file in files] == [None, None]
    assert [file.path.name for file in files] == ["worker0_step_2.json", "worker0_step_10.json"]


def test_a_named_file_is_left_to_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text("{}")
    assert find_traces(path).files[0].kind == "kineto"


def test_nothing_to_read_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="It is empty"):
        find_traces(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(InputFileError, match=r"It holds: a\.txt") as caught:
        find_traces(tmp_path)
    assert "torch.profiler" in caught.value.next_step
    with pytest.raises(InputFileError, match="There is no file"):
        find_traces(tmp_path / "missing.json")
    with pytest.raises(InputFileError, match="No trace is named"):
        find_traces([])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(TRACE)
    path.chmod(0)
    with pytest.raises(InputFileError, match="cannot be read"):
        find_traces(path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not there")
def test_every_shared_trace_is_recognised() -> None:
    for path in SHARED.rglob("*.json.gz"):
        assert kind_of(path) == "kineto", path
    assert [file.rank for file in find_traces(SHARED / "param" / "dlrm_8rank").files] == [*range(8)]
