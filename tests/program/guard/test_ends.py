"""Who ends a capture ends all of it: the process, what it started, and its scratch folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuscope import children

SCRATCH = "gpuscope-script-*"

STANDS_STILL = """
import os, subprocess, sys, tempfile, time
import torch

def build():
    open(os.path.join(tempfile.gettempdir(), "left.txt"), "w").write("x")
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    os.write(2, f"{os.getpid()} {other.pid} stands\\n".encode())
    time.sleep(120)
"""

AT_ONCE_S = 20.0
"""On an idle machine it takes well under a second."""


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("how", "named", "guard"),
    [(signal.SIGINT, "train.py:build", ""), (signal.SIGKILL, "train.py", "1")],
    ids=["a build is interrupted", "whoever asked for a script is killed"],
)
def test_nothing_is_left(tmp_path: Path, how: signal.Signals, named: str, guard: str) -> None:
    text = STANDS_STILL if ":" in named else STANDS_STILL.replace("build", "work") + "work()\n"
    (tmp_path / "train.py").write_text(text)
    (temporary := tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        children.python("gpuscope", "predict", named),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=children.environment()
        | {"TMPDIR": str(temporary), "GPUSCOPE_NO_OVERLAY": guard, "GPUSCOPE_LANG": "en"},
        start_new_session=True,  # a terminal interrupts a whole group
    )
    assert process.stderr is not None
    told = b""
    while not told.endswith(b"stands\n"):
        told = process.stderr.readline()
        assert told, "it has ended"
    started = [int(number) for number in told.split()[:2]]
    assert all(alive(each) for each in started)
    assert [*temporary.glob(SCRATCH)]
    os.killpg(process.pid, how)
    begin = time.perf_counter()
    _, told = process.communicate(timeout=60)
    assert time.perf_counter() - begin < AT_ONCE_S
    if how == signal.SIGINT:
        assert (process.returncode, told.decode()) == (130, "Interrupted.\n")
    while time.perf_counter() - begin < AT_ONCE_S and (
        [*temporary.glob(SCRATCH)] or any(alive(each) for each in started)
    ):
        time.sleep(0.05)
    assert [*temporary.glob(SCRATCH)] == []
    assert not any(alive(each) for each in started)
