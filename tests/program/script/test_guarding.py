"""What a script may do and what not; the hook itself is for ever, so it runs elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuscope.program.script.guarding import _doing, _harmless_places

_PLACES = ("/harmless",)


@pytest.mark.parametrize(
    ("event", "args", "expected"),
    [
        ("open", ("/data/x", "r", 0), None),
        ("open", ("/data/x", "w", 0), "write /data/x"),
        ("open", ("/data/x", "r+", 0), "write /data/x"),
        ("open", ("/data/x", None, os.O_CREAT), "write /data/x"),
        ("open", ("/data/x", None, os.O_RDONLY), None),
        ("open", ("/harmless/x", "w", 0), None),
        ("open", ("/harmlessnot/x", "w", 0), "write /harmlessnot/x"),
        ("open", (3, "w", 0), None),
        ("open", ("/data/__pycache__/m.pyc", "w", 0), None),
        ("os.remove", ("/data/x", -1), "delete /data/x"),
        ("os.mkdir", ("/data/x", 0, -1), "create /data/x"),
        ("subprocess.Popen", ("/bin/tool", [], None, None), "start a program (tool)"),
        ("os.system", (b"tool",), "start a program (tool)"),
        ("socket.connect", (None, ("10.0.0.1", 80)), "talk to 10.0.0.1"),
        ("socket.connect", (None, ("127.0.0.1", 80)), None),
        ("socket.connect", (None, "/run/socket"), None),
        ("import", ("os",), None),
    ],
)
def test_events(event: str, args: tuple[object, ...], expected: str | None) -> None:
    assert _doing(event, args, _PLACES) == expected


def test_temporary_files_are_harmless(tmp_path: Path) -> None:
    import tempfile

    assert os.path.realpath(tempfile.gettempdir()) in _harmless_places()


@pytest.mark.parametrize(
    "writes",
    [
        "open({!r}, 'w')", "import torch; torch.save(1, {!r})",
        "import numpy; numpy.save({!r}, [1])", "import pathlib; pathlib.Path({!r}).mkdir()",
    ],
)  # fmt: skip
def test_the_hook_names_the_line_before_anything_is_written(tmp_path: Path, writes: str) -> None:
    script = tmp_path / "main.py"
    victim = tmp_path / "out.npy"
    script.write_text(
        "import os, runpy, sys, tempfile\n"
        "tempfile.tempdir = '/nowhere'\n"
        "from gpuscope.program.script.guarding import guard\n"
        "def refuse(error):\n"
        "    print(error, flush=True)\n"
        "    os._exit(4)\n"
        "guard('main.py', refuse)\n"
        + writes.format(str(victim)) + "\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert f"{victim} (line 8" in done.stdout
    assert not victim.exists()
