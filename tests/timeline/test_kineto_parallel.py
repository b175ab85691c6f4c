"""A file read by several processes gives what one process gives, whatever is wrong with it."""

import gzip
import json
import multiprocessing
import os
import random
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from kineto_traces import HEADER, RECORDED, SHARED, document, event, training

from gpuscope.errors import InputFileError
from gpuscope.timeline.kineto import blocks, parallel, read_trace
from gpuscope.timeline.kineto.decode import typed
from gpuscope.timeline.kineto.parts import absorb, packed, part_of, unpacked
from gpuscope.timeline.kineto.table import Table

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="Linux only")

TOOK: list[bool] = []


@pytest.fixture
def small(monkeypatch):
    """Small blocks, workers from the first chunk on, and a note of each chunk that one took."""
    monkeypatch.setattr(parallel, "START_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1500)
    start, take = parallel.Parallel._start, parallel._Worker.take

    def started(self):
        start(self)
        for worker in self._workers:
            while not worker._ready and not worker._gone:
                worker.listen(None)

    def took(self, task, is_own):
        TOOK.append(take(self, task, is_own))
        return TOOK[-1]

    TOOK.clear()
    monkeypatch.setattr(parallel.Parallel, "_start", started)
    monkeypatch.setattr(parallel._Worker, "take", took)


def equal(a, b) -> bool:
    """The same values of the same types, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if is_dataclass(a):
        return all(equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def both(path, workers=2):
    """Read with one process and with several; the same error counts as the same."""
    found = []
    for count in (0, workers):
        try:
            found.append(read_trace(path, workers=count))
        except InputFileError as error:
            found.append((error.what, error.why, error.next_step))
    assert equal(found[0], found[1])
    return found[1]


def many(copies=40) -> list[dict]:
    """The same step again and again, each with names, shapes and categories of its own."""
    listed = []
    for n in range(copies):
        for record in training():
            moved = json.loads(json.dumps(record))
            if moved["ph"] == "X":
                moved["ts"] = float(moved["ts"]) + 10_000 * n
                if n % 5 == 4:
                    moved["name"] += f" {n}"
                if n % 17 == 16:
                    moved["cat"] += f" {n}"
                if "Input Dims" in moved.get("args", {}):
                    moved["args"]["Input Dims"][0][0] += n // 3
            listed.append(moved)
    return listed


TEXT = json.dumps(document(many())).encode()


def test_the_same_timeline(tmp_path, small, monkeypatch):
    joined = []
    monkeypatch.setattr(parallel, "absorb", lambda *a: (joined.append(a[1].rows), absorb(*a)))
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(TEXT))
    timeline = both(path)
    assert TOOK.count(True) > 5
    assert sum(joined) > timeline.sources[0].events_read // 2, "most came as columns"
    assert len(timeline.steps) > 20
    assert len(timeline.ops) > 20
    assert not timeline.sources[0].cut_off


def test_cut_off_anywhere(tmp_path, small):
    path = tmp_path / "a.json"
    picked = random.Random(3)
    for length in [picked.randrange(len(TEXT)) for _ in range(3)]:
        path.write_bytes(TEXT[:length])
        both(path, workers=1)
    assert any(TOOK)


@pytest.mark.parametrize(
    "piece",
    [
        b'\n{"ph": "X", oops},',
        b"null,",
        b'{"ph": "X", "name": "a\x01", "ts": 1, "dur": 2},',
        b'{"ph": "X", "cat": "kernel", "name": "k", "ts": "7", "dur": 1, "args": '
        b'{"a": [{"ph": 1}, {"name": 2}, {"ts": "' + b"x" * 4000 + b'"}]}},',
        b"],",
        b']}, {"ph": "X"},',
    ],
)
def test_bad_chunks(tmp_path, small, piece):
    at = [TEXT.index(b'{"ph": "X"', len(TEXT) * k // 5) for k in (1, 2, 3)]
    text = bytearray(TEXT)
    for place in reversed(at):
        text[place:place] = piece
    path = tmp_path / "a.json"
    path.write_bytes(text)
    timeline = both(path)
    assert any(TOOK)
    assert timeline.sources[0].events_read > 100


def test_objects_after_the_events(tmp_path, small):
    """What is cut and parsed ahead is not events, but stands behind them in the header."""
    after = [{"name": f"n{n}", "ph": "X", "cat": "kernel", "ts": n, "dur": 1} for n in range(400)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": many(), "more": after, **HEADER}))
    timeline = both(path)
    assert TOOK.count(True) > 5
    assert timeline.sources[0].world_size == 4, "the header after the list was read whole"
    assert timeline.sources[0].events_read == sum(e["ph"] == "X" for e in many())


def test_real_recordings(small, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 40_000)
    for path in sorted((RECORDED / "4xh200").glob("*/rank-0.json.gz"))[:1]:
        both(path)
    assert TOOK.count(True) > 5


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real traces here")
def test_memory_and_counters_of_a_real_recording(small, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 400_000)
    timeline = both(SHARED / "hta/df_index_resolver/df_index_resolver.json.gz")
    assert any(TOOK)
    assert timeline.sources[0].events_read > 100_000


def test_a_worker_that_dies_is_done_without(tmp_path, small, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(TEXT)
    whole = read_trace(path, workers=0)
    take, workers = parallel._Worker.take, []

    def killing(self, task, is_own):
        taken = take(self, task, is_own)
        if sum(TOOK) == 4 and not workers:
            workers.append(self)
            self._process.kill()
        return taken

    monkeypatch.setattr(parallel._Worker, "take", killing)
    assert equal(read_trace(path, workers=1), whole)
    assert workers[0]._gone
    assert workers[0]._process.returncode is not None


def test_a_program_that_cannot_start(tmp_path, small, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(TEXT)
    for program in ("/nonexistent/python", "/bin/true"):
        monkeypatch.setattr(parallel.sys, "executable", program)
        both(path)
    assert not any(TOOK)


def test_no_process_is_left_after_an_interruption(tmp_path, small, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(TEXT)
    processes = []

    def interrupted(table, part):
        raise KeyboardInterrupt

    init = parallel._Worker.__init__

    def kept(self):
        init(self)
        processes.append(self._process)

    monkeypatch.setattr(parallel._Worker, "__init__", kept)
    monkeypatch.setattr(parallel, "absorb", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_trace(path, workers=2)
    assert [process.returncode is not None for process in processes] == [True, True]


def test_small_files_start_nothing(tmp_path, monkeypatch):
    def never(self):
        raise AssertionError

    monkeypatch.setattr(parallel._Worker, "__init__", never)
    path = tmp_path / "a.json"
    path.write_bytes(TEXT)
    assert len(read_trace(path).events)


def test_how_many(monkeypatch):
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    for cores, count in ((1, 0), (2, 1), (4, 3), (64, parallel.MOST_WORKERS)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cores: set(range(n)))
        assert parallel.worker_count() == count
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    assert parallel.worker_count() == 0


def test_a_part_alone_is_what_the_table_takes():
    text = json.dumps([event("kernel", "a", 1, 2, pid=0, tid=7, stream=7), *many(2)]).encode()
    direct, joined = Table(), Table()
    for _ in range(2):
        direct.add(typed(text))
        absorb(joined, unpacked(packed(part_of(typed(text), is_own=False))))
    assert list(direct.names) == list(joined.names)
    assert (direct.rows, direct.skipped) == (joined.rows, joined.skipped)
    for group in ("events", "device", "calls", "operators", "memory"):
        columns = getattr(direct, group)
        assert equal(columns.join(columns.parts), getattr(joined, group).join(columns.parts))
