"""Recorded loads: each form, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.errors import GpuscopeError
from gpuscope.serving.traces import read_trace


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_forms(tmp_path: Path) -> None:
    plain = read_trace(written(tmp_path, "a.csv", "time,input,output\n1,10,5\n1.5,20,6\n"))
    assert plain.arrival_s.tolist() == [0.0, 0.5]
    assert plain.output_tokens.tolist() == [5, 6]
    assert not len(plain.priority)
    rare = "{},input,output\n0,10,5\n125,20,6\n"
    for header, gap_s in (("time_ms", 0.125), ("Arrival time (ms)", 0.125), ("time_s", 125.0)):
        found = read_trace(written(tmp_path, "u.csv", rare.format(header)))
        assert found.arrival_s.tolist() == [0.0, gap_s]
    urgent = read_trace(written(tmp_path, "p.csv", "0,10,5,2\n1.5,20,6,0\n"))
    assert urgent.priority.tolist() == [2, 0]
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    azure += "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n"
    assert read_trace(written(tmp_path, "b.csv", azure)).arrival_s[1] == pytest.approx(0.052)
    mooncake = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]}\n'
    mooncake += '{"timestamp": 500, "input_length": 700, "output_length": 5, "hash_ids": [7, 9]}\n'
    found = read_trace(written(tmp_path, "c.jsonl", mooncake))
    assert found.blocks.tolist() == [0, 1, 0, 2]
    assert found.block_start.tolist() == [0, 2, 4]
    assert found.arrival_s[1] == 0.5


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no request"), ("1,10,5\n0.5,10,5\n", "Request 2"), ("-1,10,5\n", "cannot be -1"),
        ("0,10,5\nx,10,5\n", "Line 2"), ("0,10\n1,10\n", "Line 2"), ("0,0,5\n", "cannot be 0"),
        ("0,10,5\n900000,10,5\n", "milliseconds"),
        ("time,input,output\n0,10,5\n125,10,5\n250,1,5\n", "milliseconds"),
        ("0.5,10,5\n9000.5,10,5\n", "milliseconds"), ("{}\n", "Line 1"), ("{\n", "Line 1"),
        ("0,10,5\nnan,10,5\n", "Line 2"), ("0,10,5\n1,10,5,soon\n", "Line 2"),
        ("0,10,5\n1,1e300,5\n", "Line 2"),
    ],
)  # fmt: skip
def test_what_is_none(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(GpuscopeError) as caught:
        read_trace(written(tmp_path, "x.csv", text))
    assert word in str(caught.value)
