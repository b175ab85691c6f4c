"""The tests pass in the background, too, where the shell has interrupts ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def test_a_child_hears_an_interrupt() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_child_hears_an_interrupt_also_in_the_background() -> None:
    this = f"{Path(__file__)}::{test_a_child_hears_an_interrupt.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", this]
    done = subprocess.run(
        command,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
