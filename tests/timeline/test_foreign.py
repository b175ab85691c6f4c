"""Files of other tools: each is told by name, with what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.timeline.trace_files import find_traces

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "what", "fix"),
    [
        ("t.json", POINTER, "Git LFS pointer", "git lfs pull"),
        ("t.nsys-rep", b"\0\1", "Nsight Systems", "nsys export --type sqlite"),
        ("t.ncu-rep", b"\0\1", "Nsight Compute", "explain counters"),
        (
            "t.csv",
            b'"ID","Process ID","Process Name"\n',
            "Nsight Compute",
            "gpuscope explain counters",
        ),
        ("t.pftrace", b"\n\1", "Perfetto", "torch.profiler"),
        ("t.json", b"<!DOCTYPE html>\n<html>", "web page", "made of"),
        (
            "t.csv",
            b"timestamp, index, power.draw [W]\n",
            "log of a device",
            "gpuscope watch --replay",
        ),
        ("dmon.txt", b"#Entity   GPUTL   SMACT\n", "log of a device", "gpuscope watch --replay"),
    ],
)
def test_it_is_named(tmp_path: Path, name: str, content: bytes, what: str, fix: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=what) as caught:
        find_traces(path)
    assert fix in caught.value.next_step


def test_others_are_their_readers_to_judge(tmp_path: Path) -> None:
    for content in (b"", b"\xff\xfe", b"SQLite format 3\0 damaged", b"{}"):
        path = tmp_path / "t.json"
        path.write_bytes(content)
        assert find_traces(path).files
