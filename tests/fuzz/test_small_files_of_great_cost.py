"""Small files made to cost much: each is read soon, or refused with how to allow it.

The limits are a hundredth of what users have, so that the files are small; how the real ones fare
is in docs/security.md.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

import nsys_databases

from gpuscope.errors import InputFileError
from gpuscope.loading.job import Job, run_job
from gpuscope.outside import limits

EVENT = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":1},'


def spaces(folder: Path) -> Path:
    path = folder / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + bytes(8 << 20)))
    return path


def events(folder: Path) -> Path:
    path = folder / "t.json.gz"
    path.write_bytes(gzip.compress(b"[" + (EVENT % 5) * 30_000))
    return path


def members(folder: Path) -> Path:
    path = folder / "t.json.gz"
    path.write_bytes(gzip.compress(b"[") + gzip.compress(b"") * 2_000)
    return path


def packed_zstd(folder: Path) -> Path:
    import zstandard

    path = folder / "t.json"
    path.write_bytes(zstandard.compress(b'{"traceEvents": [' + bytes(8 << 20)))
    return path


def rows(folder: Path) -> Path:
    tables = nsys_databases.step_tables()
    tables["OSRT_API"] = [(1, 2, 3, 4)] * 30_000
    return nsys_databases.make(folder / "t.sqlite", tables)


def processes(folder: Path) -> Path:
    tables = nsys_databases.step_tables()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [
        nsys_databases.kernel(i * 10, i * 10 + 5, i, pid=(i + 1) << 24) for i in range(500)
    ]
    return nsys_databases.make(folder / "t.sqlite", tables)


@pytest.mark.parametrize(
    "make", [spaces, events, members, packed_zstd, rows, processes], ids=lambda m: m.__name__
)
def test_what_costs_too_much_is_refused(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(limits.VARIABLE, "0.01")
    path = make(tmp_path)
    begin = time.process_time()
    with pytest.raises(InputFileError, match="costs more to read") as caught:
        run_job(Job(str(path), "nsys" if path.suffix == ".sqlite" else "kineto"), alone=True)
    assert time.process_time() - begin < 5
    assert "GPUSCOPE_LIMITS=0.1" in caught.value.next_step


def test_a_view_is_no_table(tmp_path: Path) -> None:
    """A recursive view under the name of a table ran for ever."""
    path = nsys_databases.make(tmp_path / "t.sqlite", nsys_databases.step_tables())
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE OSRT_API")
        database.execute("CREATE VIEW OSRT_API AS SELECT * FROM OSRT_API")
    database.close()
    assert len(run_job(Job(str(path), "nsys"), alone=True).timeline.events)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b'},{"ph":[{"a":[' * 100_000,
        b"[" + b"".join(b'{"ph":[{"a":1},' + b"1," * 400 for _ in range(900)) + b" " * (1 << 18),
    ],
    ids=["broken events", "open events"],
)
def test_damage_without_end_is_given_up(tmp_path: Path, text: bytes) -> None:
    """Each failure of the parser counted the lines before it: quadratic in the file."""
    path = tmp_path / "t.json"
    path.write_bytes(text)
    begin = time.process_time()
    with pytest.raises(InputFileError, match="holds no events"):
        run_job(Job(str(path), "kineto"), alone=True)
    assert time.process_time() - begin < 5


def test_process_numbers_of_one_hash_are_none(tmp_path: Path) -> None:
    """Whole numbers of any length have hashes modulo 2^61 - 1: all of these had one."""
    listed = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "a",
            "pid": i * (2**61 - 1),
            "tid": 1,
            "ts": i,
            "dur": 1,
        }
        for i in range(1, 20_000)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(listed))
    begin = time.process_time()
    timeline = run_job(Job(str(path), "kineto"), alone=True).timeline
    assert len(timeline.lanes) < 10
    assert time.process_time() - begin < 5
