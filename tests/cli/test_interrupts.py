"""Ctrl-C at any moment of a command: "Interrupted." and 130, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from gpuscope import children

MOMENTS = 12

# As the console script does; it says when `main`, which answers interrupts, has begun: before that
# Python itself does, and nothing here can change it.
COMMAND = (
    "import os, gpuscope.cli as cli\n"
    "def begun(run=cli._main):\n"
    "    os.write(2, b'.')\n"
    "    run()\n"
    "cli._main = begun\n"
    "cli.main()\n"
)


def _start(*arguments: str, code: str = COMMAND, **environment: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=children.environment() | {"LC_ALL": "C.UTF-8", "GPUSCOPE_LANG": "en"} | environment,
    )
    assert process.stderr is not None
    assert process.stderr.read(1) == "."
    return process


def test_an_interrupt_at_any_moment_is_told_in_one_word() -> None:
    verb = ("explain", "occupancy", "--threads", "256", "--registers", "64", "--on", "h200")
    begin = time.perf_counter()
    whole, told = (done := _start(*verb)).communicate(timeout=60)
    lasted_s = time.perf_counter() - begin
    assert (done.returncode, told) == (0, "")
    assert whole
    interrupted = 0
    for moment in range(MOMENTS):
        process = _start(*verb)
        time.sleep(lasted_s * moment / (MOMENTS - 1))
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=60)
        if process.returncode == 0:  # it had told all before the signal came
            assert (shown, told) == (whole, "")
        else:
            assert (process.returncode, told) == (130, "Interrupted.\n"), f"moment {moment}"
            interrupted += 1
    assert interrupted > MOMENTS / 2


HOLD = """
import os, sys, time
def hold():
    os.write(2, b".")
    time.sleep(30)
"""


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (
            "an import of the command line",
            "import importlib.abc\n"
            "class Finder(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path, target=None):\n"
            "        if name == 'gpuscope.cli.speech': hold()\n"
            "sys.meta_path.insert(0, Finder())\n",
        ),
        (
            "the words after the verb",
            "import gpuscope.cli.app as app\n"
            "app._Group.make_context = lambda *given, **more: hold()\n",
        ),
        (
            "the verb, where Python cannot raise",
            "import gpuscope.cli.app as app, time\n"
            "class Held:\n"
            "    def __del__(self): hold()\n"
            "def verb(self, ctx):\n"
            "    Held()\n"
            "    time.sleep(2)\n"
            "app.SpokenGroup.invoke = verb\n",
        ),
        (
            "the verb, where Python raises something else",
            "import gpuscope.cli.app as app\n"
            "class Held:\n"
            "    def __set_name__(self, owner, name): hold()\n"
            "def verb(self, ctx): type('Made', (), {'held': Held()})\n"
            "app.SpokenGroup.invoke = verb\n",
        ),
        ("the last functions", "import threading\nthreading._register_atexit(hold)\n"),
    ],
)
def test_where_nothing_is_caught_it_is_told_too(where, code) -> None:
    code = HOLD + code + "import gpuscope.cli\ngpuscope.cli.main()\n"
    process = _start("devices", "h200", "--json", code=code, GPUSCOPE_LANG="zh")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    # In the middle of the very import that the catalogue needs, it is English.
    early = {"Interrupted.\n"} if where.startswith("an import") else set()
    assert told in {"已中断。\n"} | early


def test_who_ignores_interrupts_goes_on_ignoring_them() -> None:
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + COMMAND
    process = _start("devices", "h200", "--json", code=code)
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    shown, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, "")
    assert shown


def test_python_s_own_handler_is_there_while_a_verb_runs() -> None:
    """What runs there may ask for it: asyncio does, and users' scripts."""
    code = (
        "import gpuscope.cli, gpuscope.cli.app as app, os\n"
        "from signal import SIGINT, default_int_handler, getsignal\n"
        "os.write(2, b'.')\n"
        "def verb(self, ctx): print(getsignal(SIGINT) is default_int_handler)\n"
        "app.SpokenGroup.invoke = verb\n"
        "gpuscope.cli.main()\n"
    )
    shown, _ = _start("devices", code=code).communicate(timeout=60)
    assert shown == "True\n"


def test_little_is_read_before_an_interrupt_is_cared_for() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nimport gpuscope.cli\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=children.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"__future__", "gpuscope", "gpuscope.cli"}


def test_what_a_user_s_code_left_open_is_written(tmp_path) -> None:
    """A quick end must not cut files that their owner leaves to Python to close."""
    script = tmp_path / "work.py"
    script.write_text("kept = open('left.txt', 'w')\nkept.write('all of it')\n")
    code = "import os, gpuscope.cli\nos.write(2, b'.')\nimport sys\nsys.path.insert(0, '.')\n" + (
        "import gpuscope.cli.app as app\n"
        "def verb(self, ctx): import work; sys.kept = work\n"
        "app.SpokenGroup.invoke = verb\ngpuscope.cli.main()\n"
    )
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        process = _start("predict", "work.py", code=code)
        _, told = process.communicate(timeout=60)
    finally:
        os.chdir(before)
    assert (process.returncode, told) == (0, "")
    assert (tmp_path / "left.txt").read_text() == "all of it"
