"""Archives of recordings: read as their folder would be, or refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.loading.archives import unpacked
from gpuscope.outside import limits

TRACE = Path(__file__).resolve().parents[1] / "data/traces/h200/pageable_copies/rank-0.json.gz"


def zipped(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, parts: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return path


@pytest.mark.parametrize("make", [zipped, tarred])
def test_an_archive_is_read_as_its_folder(tmp_path: Path, make) -> None:
    parts = {"run/rank-0.json.gz": TRACE.read_bytes(), "run/notes.txt": b"x", "run/a.png": b"y"}
    path = make(tmp_path / ("a.zip" if make is zipped else "a.tar.gz"), parts)
    whole, run = load(TRACE), load(path)
    assert run.step_time_s == whole.step_time_s
    assert run.name == path.name


def test_ranks_in_the_names_of_folders_count(tmp_path: Path) -> None:
    trace = TRACE.read_bytes()
    path = zipped(tmp_path / "a.zip", {"rank-0/t.json.gz": trace, "rank-1/t.json.gz": trace})
    with unpacked(path) as found:
        assert [each.name for each in sorted(Path(found[0]).iterdir())] == [
            "0000-rank-0-t.json.gz",
            "0001-rank-1-t.json.gz",
        ]
    assert not Path(found[0]).exists()


def test_names_that_lead_elsewhere_stay_inside(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"../../evil.json": b"{}", "/abs/x.json": b"{}"})
    with unpacked(path) as found:
        names = [each.name for each in sorted(Path(found[0]).iterdir())]
    assert names == ["0000-evil.json", "0001-abs-x.json"]
    assert not (tmp_path.parent / "evil.json").exists()


def test_what_is_no_good_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputFileError, match="holds no recording"):
        load(zipped(tmp_path / "a.zip", {"x.txt": b""}))
    whole = zipped(tmp_path / "b.zip", {"t.json": gzip.decompress(TRACE.read_bytes())})
    cut = tmp_path / "c.zip"
    cut.write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(InputFileError, match="damaged archive"):
        load(cut)
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 1000)
    monkeypatch.setattr(limits, "UNPACKED_RATIO", 1)
    with pytest.raises(InputFileError, match="unpacks to more than"):
        load(whole)
