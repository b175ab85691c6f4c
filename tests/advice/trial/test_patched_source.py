"""The patched source is built where the change is made, and the original elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuscope.advice.registry import CHANGES, find
from gpuscope.advice.results import Target
from gpuscope.advice.trial.patched_source import PATCHED, write_both
from gpuscope.advice.user_changes import load_own

TRAIN = """
from parts.scale import FACTOR
import near

def build(batch=1):
    return lambda: batch * FACTOR * near.NUMBER
"""

EACH = """
import os, sys, torch
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
def each(check):
    # Forks of one that has imported PyTorch, and nothing of the user's.
    for which in ("original", "patched"):
        if not (child := os.fork()):
            check(lambda: Live(plan(["patched-source"] if which == "patched" else [])))
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)
"""

CHECK = """
from gpuscope.program.workload import resolve
def check(made):
    build = resolve(sys.argv[1]).build
    live = made()
    print(live.wrap(build)()())
    live.close()
each(check)
"""


def _said(code: str, *arguments: str) -> list[str]:
    """What the original and the patched one print."""
    done = subprocess.run(
        [sys.executable, "-c", EACH + code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _project(folder: Path) -> Path:
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "scale.py").write_text("FACTOR = 10\n")
    (folder / "near.py").write_text("NUMBER = 3\n")
    (folder / "train.py").write_text(TRAIN)
    return folder / "train.py"


def test_original_and_patched_are_told_apart(tmp_path: Path) -> None:
    train = _project(tmp_path / "project")
    scale = train.parent / "parts" / "scale.py"
    files = {str(scale): "FACTOR = 20\n", str(train): TRAIN.replace("batch *", "2 * batch *")}
    made = write_both(
        tmp_path / "out", train, Target("build", "", {"batch": 5}), "build", files, "reordered"
    )
    assert made is not None
    target, registers = made
    assert registers.is_file()
    assert _said(CHECK, target.name) == ["150", "600"]


def test_a_change_outside_of_the_folder_is_not_tried(tmp_path: Path) -> None:
    train = _project(tmp_path / "project")
    files = {str(tmp_path / "elsewhere.py"): "x = 1\n"}
    assert write_both(tmp_path / "out", train, Target("build", ""), "build", files, "exact") is None


@pytest.mark.parametrize("function", ["build", ""])
@pytest.mark.parametrize("redraws", [False, True])
def test_it_is_compared_as_its_changes_are(tmp_path: Path, function: str, redraws: bool) -> None:
    """A loader's workers draw other random numbers from a patch as they do live."""
    train = _project(tmp_path / "project")
    of = Target("build" if function else "script", str(train))
    files = {str(train): TRAIN.replace("batch *", "2 * batch *")}
    made = write_both(tmp_path / "out", train, of, function, files, "bf16", redraws)
    assert made is not None
    try:
        load_own([str(made[1])])
        change = find(PATCHED)
    finally:
        CHANGES.drop(PATCHED)
    assert (change.numerics, change.redraws) == ("bf16", redraws)


SCRIPT = """
import sys
from parts.scale import FACTOR
import near

if __name__ == "__main__":
    print(int(sys.argv[1]) * FACTOR * near.NUMBER, __file__, sys.argv[0])
"""

RUN = """
from gpuscope.advice.user_changes import load_own
from gpuscope.program.script import runner
load_own([sys.argv[2]])
def check(made):
    live = made()
    live.start()
    error = runner.run(runner.Program(sys.argv[1], ("5",)))
    live.close()
    if error is not None:
        raise error
each(check)
"""


def test_a_whole_script_is_run_as_either(tmp_path: Path) -> None:
    train = _project(tmp_path / "project")
    train.write_text(SCRIPT)
    scale = train.parent / "parts" / "scale.py"
    files = {str(scale): "FACTOR = 20\n", str(train): SCRIPT.replace("print(", "print(2 * ")}
    of = Target("script", str(train), arguments=("5",))
    made = write_both(tmp_path / "out", train, of, "", files, "reordered")
    assert made is not None
    target, registers = made
    assert (target.kind, target.arguments) == ("script", ("5",))
    # Both find their data beside the original.
    there = f"{train} {train}"
    assert _said(RUN, target.name, str(registers)) == [f"150 {there}", f"600 {there}"]
