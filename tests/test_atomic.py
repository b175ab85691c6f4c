"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuscope.atomic import check_writable, whole_file, write_atomically
from gpuscope.errors import InputFileError


def test_text_and_bytes_are_written_and_replace_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    write_atomically(target, "first")
    write_atomically(target, "第二")
    assert target.read_text("utf-8") == "第二"
    write_atomically(target, b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def _fail_in_the_middle(target: Path, error: Exception) -> None:
    with whole_file(target) as file:
        file.write(b"half")
        raise error


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.write_text("before")
    with pytest.raises(ZeroDivisionError):
        _fail_in_the_middle(target, ZeroDivisionError())
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="No space left"):
        _fail_in_the_middle(tmp_path / "x", OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_places_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(InputFileError, match="does not exist") as caught:
        check_writable(tmp_path / "no" / "x.json")
    assert caught.value.next_step == f"Type: mkdir -p {tmp_path / 'no'}"
    check_writable(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_a_device_or_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_writable(pipe)
        write_atomically(pipe, "text")
        assert os.read(reading, 100) == b"text"
    finally:
        os.close(reading)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "run.json", tmp_path / "latest.json"
    link.symlink_to(target)
    for text in ("first", "second"):
        write_atomically(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
