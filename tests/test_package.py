"""The wheel: it holds every file of the package, installs by itself, and runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from gpuscope import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "gpuscope"
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
pytestmark = pytest.mark.slow


def run(*command: object, **environment: str) -> str:
    """What a command prints; it has to succeed, and knows nothing of the sources."""
    known = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command],
        env={**known, **environment},
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip")
    try:  # the build's own tools and what gpuscope needs come from there
        run(*pip, "download", "--quiet", "--no-deps", "--dest", folder, "hatchling")
    except AssertionError:
        pytest.skip("no package index can be reached")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("gpuscope-*.whl")
    return built


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_an_index_would_take_it(wheel: Path) -> None:
    pytest.importorskip("twine")
    assert "PASSED" in run(sys.executable, "-m", "twine", "check", "--strict", wheel)


def test_every_file_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.relative_to(PACKAGE.parent).as_posix() for path in files} <= held
    kinds = {path.suffix for path in files}
    assert {".toml", ".html", ".json", ".yml", ".typed"} <= kinds


def test_the_licences_are_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {n.rpartition(".dist-info/")[2]: archive.read(n) for n in archive.namelist()}
    for name in ("LICENSE", "THIRD-PARTY-NOTICES"):
        assert held[f"licenses/{name}"] == (ROOT / name).read_bytes()


def test_it_says_what_it_is(wheel: Path) -> None:
    said = metadata(wheel)
    assert said["Version"] == __version__
    needed = [each for each in said.get_all("Requires-Dist", ()) if "extra ==" not in each]
    names = {re.match(r"[\w-]+", each)[0] for each in needed}  # type: ignore[index]
    assert names == {"isal", "msgspec", "numpy", "rich", "typer", "zstandard"}


def test_the_readme_reads_well_on_an_index(wheel: Path) -> None:
    text = metadata(wheel).get_payload(decode=True).decode("utf-8")  # type: ignore[union-attr]
    assert text.startswith("# gpuscope")
    assert "make demo" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def check(gpuscope: Path) -> None:
    """That what was installed runs, with its data, where there is no PyTorch."""
    assert run(gpuscope, "--version") == f"gpuscope {__version__}\n"
    assert "predict" in run(gpuscope, "--help")
    assert "nvidia-h200-sxm" in run(gpuscope, "devices")
    assert "256x128" in run(gpuscope, "explain", "matmul", 4096, 4096, 4096, "--on", "h200")


def test_pip_installs_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "clean", with_pip=True)
    scripts = tmp_path / "clean" / SCRIPTS
    run(scripts / "python", "-m", "pip", "install", "--quiet", wheel)
    check(scripts / "gpuscope")


@pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")
def test_uv_installs_it(wheel: Path, tmp_path: Path) -> None:
    folders = {"UV_TOOL_DIR": tmp_path / "tools", "UV_TOOL_BIN_DIR": tmp_path / "bin"}
    run("uv", "tool", "install", "--quiet", wheel, **{k: str(v) for k, v in folders.items()})
    check(tmp_path / "bin" / "gpuscope")
