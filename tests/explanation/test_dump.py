"""Reading the flight recorder's dumps: real ones of Gloo, and everything that is none."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from dumps_made import START_NS, calls, entry, write

from gpuscope.errors import InputFileError
from gpuscope.explanation.flight_recorder.calls import Frame, Key
from gpuscope.explanation.flight_recorder.dump import is_dump, read_dumps

DATA = Path("tests/data/errors/flight_recorder")


def test_a_real_dump_is_read() -> None:
    dumps = read_dumps(DATA / "rank_missing")
    assert sorted(dumps.ranks) == [0, 1, 2, 3]
    assert [len(dumps.ranks[rank].calls) for rank in range(4)] == [4, 4, 3, 4]
    call = dumps.ranks[0].calls[Key("0", False, 4)]
    assert call.operation == "all_reduce"
    assert call.input_sizes == ((1024, 8),)
    assert call.elements == 8192
    assert call.state == "unknown"
    assert call.timeout_s == 4.0
    assert call.sites[0] == Frame("/home/user/job/train.py", 13, "step")
    assert all("torch" not in site.file for site in call.sites)
    assert dumps.ranks[0].groups["0"].ranks == (0, 1, 2, 3)


def test_json_says_the_same_without_call_sites() -> None:
    pickled, text = read_dumps(DATA / "rank_missing"), read_dumps(DATA / "json")
    for rank in range(4):
        ours, theirs = pickled.ranks[rank].calls, text.ranks[rank].calls
        assert list(ours) == list(theirs)
        for key, call in ours.items():
            assert theirs[key].input_sizes == call.input_sizes
            assert theirs[key].sites == ()


def test_the_pickle_wins_over_its_json(tmp_path: Path) -> None:
    write(tmp_path, {0: calls("c")}, 1)
    text = (DATA / "json" / "nccl_trace_rank_0.json").read_text()
    (tmp_path / "nccl_trace_rank_0.json").write_text(text)
    assert len(read_dumps(tmp_path).ranks[0].calls) == 1


def test_other_files_of_the_folder_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {0: calls("c")}, 1)
    (tmp_path / "train_1.log").write_text("loss 0.3")
    (tmp_path / "config_1.json").write_text('{"lr": 1}')
    assert list(read_dumps(tmp_path).ranks) == [0]


def test_before_2_1_there_was_one_counter(tmp_path: Path) -> None:
    old = entry(7, "completed")
    for name in ("collective_seq_id", "p2p_seq_id", "process_group", "op_id", "is_p2p"):
        del old[name]
    write(tmp_path, {0: [old | {"seq_id": 7}]}, 1, version="2.0")
    assert list(read_dumps(tmp_path).ranks[0].calls) == [Key("0", False, 7)]


@pytest.mark.parametrize("version", ["1.5", "3.0"])
def test_another_format_is_refused(tmp_path: Path, version: str) -> None:
    write(tmp_path, {0: calls("c")}, 1, version=version)
    with pytest.raises(InputFileError, match="version"):
        read_dumps(tmp_path)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch was_run",)


def test_a_pickle_that_asks_for_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps({"version": "2.10", "entries": [_Evil()]}, protocol=2))
    with pytest.raises(InputFileError, match="flight recorder dump"):
        read_dumps(file)
    assert not (tmp_path / "was_run").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"\x80\x02garbage",
        b'{"entries": 3, "version": "2.1"}',
        b'{"entries": []}',
        b'{"entries": [3], "version": "2.1"}',
        b'{"entries": [{"state": "odd", "collective_seq_id": 1}], "version": "2.1"}',
        b'{"entries": [{"collective_seq_id": "x"}], "version": "2.1"}',
        b'{"entries": [], "version": "2.1", "pg_config": {"0": 3}}',
        b'{"entries": [{"collective_seq_id": 1, "input_sizes": [["x"]]}], "version": "2.1"}',
        b'{"entries": [{"collective_seq_id": 1, "profiling_name": 1, "timeout_ms": "x"}],'
        b' "version": "2.1"}',
        b'{"entries": [], "version": "2.1", "pg_config": 5}',
    ],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(data)
    with pytest.raises(InputFileError):
        read_dumps(file)


def test_every_cut_of_a_dump_is_refused(tmp_path: Path) -> None:
    whole = (DATA / "rank_missing" / "nccl_trace_rank_0").read_bytes()
    file = tmp_path / "nccl_trace_rank_0"
    for end in range(0, len(whole), 1193):
        file.write_bytes(whole[:end])
        with pytest.raises(InputFileError):
            read_dumps(file)


def test_a_damaged_file_among_others_is_told(tmp_path: Path) -> None:
    write(tmp_path, {0: calls("c"), 1: calls("c")}, 2)
    file = tmp_path / "nccl_trace_rank_1"
    file.write_bytes(file.read_bytes()[:100])
    dumps = read_dumps(tmp_path)
    assert list(dumps.ranks) == [0]
    assert dumps.unread[0].rank == 1


def test_two_files_of_a_rank_runs_apart_and_no_rank_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {0: calls("c")}, 1)
    (tmp_path / "other_0").write_bytes((tmp_path / "nccl_trace_rank_0").read_bytes())
    with pytest.raises(InputFileError, match="Two dumps"):
        read_dumps(tmp_path)
    day_later = calls("c", time_created_ns=START_NS + 86_400 * 10**9)
    with pytest.raises(InputFileError, match="different runs"):
        read_dumps(write(tmp_path / "days", {0: calls("c"), 1: day_later}, 2))
    nameless = tmp_path / "dump"
    nameless.write_text(json.dumps({"version": "2.1", "entries": []}))
    with pytest.raises(InputFileError, match="rank"):
        read_dumps(nameless)


def test_an_empty_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no flight recorder dump"):
        read_dumps(tmp_path)
    with pytest.raises(InputFileError, match="no such file"):
        read_dumps(tmp_path / "none")


def test_a_log_is_no_dump(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text('{"loss": 3}\nRuntimeError')
    assert not is_dump(log)
    assert is_dump(DATA / "json" / "nccl_trace_rank_0.json")
    assert is_dump(DATA / "rank_missing" / "nccl_trace_rank_0")
