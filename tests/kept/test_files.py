from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuscope.kept import files


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_CACHE", str(tmp_path / "cache"))


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.folder() == tmp_path / "cache" / "programs"
    monkeypatch.setenv("GPUSCOPE_CACHE", "off")
    assert files.folder() is None
    assert files.read("a") is None
    assert not files.write("a", b"x")
    monkeypatch.delenv("GPUSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert files.folder() == tmp_path / "xdg" / "gpuscope" / "programs"


def test_what_is_written_is_read_under_its_name_alone() -> None:
    assert files.write("a", b"hello" * 100)
    assert files.read("a") == b"hello" * 100
    assert files.read("b") is None
    (kept,) = files.listed()
    os.rename(kept.path, kept.path.with_name("b.kept"))
    assert files.read("b") is None


def test_every_flipped_bit_and_every_cut_is_seen() -> None:
    files.write("a", bytes(range(64)))
    (kept,) = files.listed()
    whole = kept.path.read_bytes()
    for at in range(len(whole)):
        kept.path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        assert files.read("a") is None
        kept.path.write_bytes(whole[:at])
        assert files.read("a") is None
    kept.path.write_bytes(whole)
    assert files.read("a") == bytes(range(64))


def test_what_was_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate("abc"):
        files.write(name, os.urandom(1000))
        path = next(kept.path for kept in files.listed() if kept.path.stem == name)
        os.utime(path, (number, number))
    assert files.read("a")  # used now
    monkeypatch.setattr(files, "LIMIT_BYTES", 3500)
    files.write("d", os.urandom(1000))
    assert {kept.path.stem for kept in files.listed()} == {"a", "c", "d"}
    assert len(files.clear()) == 3
    assert files.listed() == []


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert not files.write("a", b"x")
    assert files.read("a") is None


def test_links_and_pipes_are_not_followed_nor_waited_for(tmp_path: Path) -> None:
    files.write("a", b"x")
    (kept,) = files.listed()
    elsewhere = kept.path.rename(tmp_path / "elsewhere")
    kept.path.symlink_to(elsewhere)
    assert files.read("a") is None
    assert files.clear() == []
    kept.path.unlink()
    os.mkfifo(kept.path)
    assert files.read("a") is None
    assert files.write("a", b"y")
    assert files.read("a") == b"y"
    assert elsewhere.exists()


def test_a_folder_of_somebody_elses_is_neither_read_nor_written_nor_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files.write("a", b"x")
    (kept,) = files.listed()
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    assert files.read("a") is None
    assert not files.write("b", b"x")
    assert files.listed() == files.clear() == []
    assert kept.path.exists()


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")
def test_somebody_elses_link_or_file_is_not_taken(tmp_path: Path) -> None:
    files.write("a", b"x")
    (kept,) = files.listed()
    place = kept.path.parent
    os.chown(kept.path, 12345, 12345)
    assert files.read("a") is None
    os.chown(kept.path, os.geteuid(), os.getegid())
    assert files.read("a") == b"x"
    mine = place.rename(tmp_path / "mine")
    place.symlink_to(mine)
    assert files.read("a") == b"x"
    os.chown(place, 12345, 12345, follow_symlinks=False)
    assert files.read("a") is None
    assert not files.write("b", b"x")
    assert files.clear() == []


def test_many_writers_leave_whole_files() -> None:
    code = (
        "import sys\nfrom gpuscope.kept import files\n"
        "for n in range(20):\n"
        "    assert files.write('same', sys.argv[1].encode() * 5000)\n"
        "    found = files.read('same')\n"
        "    assert found and len(found) == 5000 and len(set(found)) == 1, found\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "abcd"]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert len(files.listed()) == 1
    place = files.folder()
    assert place is not None
    assert len(list(place.iterdir())) == 1
