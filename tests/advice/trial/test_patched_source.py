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

CHECK = """
import sys
from pathlib import Path
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
from gpuscope.program.workload import resolve
build = resolve(sys.argv[1]).build
live = Live(plan(["patched-source"] if sys.argv[2] == "patched" else []))
print(live.wrap(build)()())
live.close()
"""


def _value(name: str, which: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CHECK, name, which], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


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
    assert _value(target.name, "original") == "150"
    assert _value(target.name, "patched") == "600"


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
import sys
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
from gpuscope.advice.user_changes import load_own
from gpuscope.program.script import runner
load_own([sys.argv[2]])
live = Live(plan(["patched-source"] if sys.argv[3] == "patched" else []))
live.start()
error = runner.run(runner.Program(sys.argv[1], ("5",)))
live.close()
if error is not None:
    raise error
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
    for which, value in (("original", "150"), ("patched", "600")):
        done = subprocess.run(
            [sys.executable, "-c", RUN, target.name, str(registers), which],
            capture_output=True,
            text=True,
            check=True,
        )
        # Both find their data beside the original.
        assert done.stdout.split() == [value, str(train), str(train)]
