"""Files are written whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpuscope import atomic
from gpuscope.atomic import check_writable, whole_file, whole_folder, write_atomically
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


KILLED = """
import os, signal, sys
from gpuscope.atomic import whole_file
with whole_file(sys.argv[1]) as file:
    file.write(b"half" * 100_000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.write_text("before")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert target.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 2
    write_atomically(target, "after")
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as first:
        first.write(b"first")
        with whole_folder(tmp_path / "figures") as folder:
            (folder / "b").write_text("b")
            write_atomically(tmp_path / "a", "second")
            write_atomically(tmp_path / "c", "c")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "c", "figures"}
    assert (tmp_path / "a").read_text() == "first"  # the last to be done
    assert (tmp_path / "figures" / "b").read_text() == "b"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_write_whose_beginning_another_takes_for_left_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Between making a file and locking it another write came, and removed it."""
    fcntl = pytest.importorskip("fcntl")
    make = f"_new_{kind}"
    usual, taken = getattr(atomic, make), []

    def made_and_taken(folder: Path) -> tuple[int, str]:
        handle, name = usual(folder)
        if not taken:
            other = os.open(name, os.O_RDONLY)
            fcntl.flock(other, fcntl.LOCK_EX)

            def remove() -> None:
                os.rmdir(name) if kind == "folder" else os.unlink(name)
                os.close(other)

            taken.append(threading.Timer(0.1, remove))
            taken[0].start()
        return handle, name

    monkeypatch.setattr(atomic, make, made_and_taken)
    with (whole_folder if kind == "folder" else whole_file)(tmp_path / "x") as it:
        if kind == "file":
            it.write(b"whole")
    taken[0].join()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_only_what_we_left_ourselves_is_removed(tmp_path: Path) -> None:
    """A file of another name or machine, a link, a pipe: none is ours to judge."""
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".gpuscope-0-a.tmp").symlink_to(tmp_path / "victim")
    os.mkfifo(tmp_path / ".gpuscope-0-b.tmp")
    (tmp_path / ".gpuscope-ffffffff-elsewhere.tmp").write_text("of another machine, now")
    (tmp_path / ".run.json.x8_fbq1a").write_text("of an editor")
    before = {p.name for p in tmp_path.iterdir()}
    write_atomically(tmp_path / "run.json", "text")
    assert {p.name for p in tmp_path.iterdir()} == before | {"run.json"}
    os.utime(tmp_path / ".gpuscope-ffffffff-elsewhere.tmp", (0, 0))
    write_atomically(tmp_path / "run.json", "text")
    assert {p.name for p in tmp_path.iterdir()} == before - {".gpuscope-ffffffff-elsewhere.tmp"} | {
        "run.json"
    }


def test_a_folder_is_there_in_full_or_not_at_all(tmp_path: Path) -> None:
    def fail() -> None:
        with whole_folder(tmp_path / "figures") as folder:
            (folder / "half").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []
    left = tmp_path / f"{atomic._prefix()}x.tmp"
    left.mkdir()
    (left / "half").touch()
    with whole_folder(tmp_path / "figures") as folder:
        (folder / "whole").touch()
    assert [p.name for p in tmp_path.iterdir()] == ["figures"]


def test_all_is_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (fsync(fd), done.append(f"{os.fstat(fd).st_size}")))
    monkeypatch.setattr(os, "replace", lambda a, b: (replace(a, b), done.append("named")))
    write_atomically(tmp_path / "x", "text")
    assert done == ["4", "named"]

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # some file systems say so only then
    with pytest.raises(InputFileError, match="No space left"):
        write_atomically(tmp_path / "x", "longer")
    assert (tmp_path / "x").read_text() == "text"


def test_a_name_may_be_as_long_as_the_file_system_has_it(tmp_path: Path) -> None:
    target = tmp_path / ("长" * 83 + ".json")  # 254 of 255 bytes
    write_atomically(target, "text")
    assert target.read_text() == "text"
