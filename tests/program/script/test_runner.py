"""A script under `gpuscope profile` behaves as under `python`: compared with the real thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.program.script.runner import Program, check

SCRIPT = """
import sys
from pathlib import Path
import beside
print(sys.argv, __name__, __file__, __spec__, sys.path[0], beside.VALUE)
print(sys.modules["__main__"].__file__)
class Thing: pass
import pickle; print(type(pickle.loads(pickle.dumps(Thing()))))
import atexit; atexit.register(lambda: print("exit handler", Thing.__name__))
what = sys.argv[1] if len(sys.argv) > 1 else ""
if what == "raise": raise ValueError("mine")
if what == "code": sys.exit(7)
if what == "text": sys.exit("said at the end")
if what == "none": sys.exit()
if what == "interrupt": raise KeyboardInterrupt
if what == "input": print(sys.stdin.read())
print("the end")
"""

UNDER = (
    "import sys\n"
    "from gpuscope.program.script.runner import Program, end_as, run\n"
    "target, module = sys.argv[1], sys.argv[2] == 'm'\n"
    "end_as(run(Program(target, tuple(sys.argv[3:]), module)))\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    return tmp_path


def _start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        input="typed",
        timeout=60,
    )


@pytest.mark.parametrize("what", ["", "raise", "code", "text", "none", "interrupt", "input"])
def test_as_python_runs_a_script(folder: Path, what: str) -> None:
    arguments = [what, "--steps", "-m"] if what else []
    plain = _start(folder, "script.py", *arguments)
    ours = _start(folder, "-c", UNDER, "script.py", "s", *arguments)
    assert ours.returncode == plain.returncode
    assert ours.stdout.replace("exit handler Thing\n", "") == plain.stdout.replace(
        "exit handler Thing\n", ""
    )
    assert ours.stderr == plain.stderr
    if what != "interrupt":
        assert "exit handler Thing" in ours.stdout


def test_as_python_runs_a_module(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__main__.py").write_text(
        "import sys; print(__name__, sys.argv[1:], __package__); sys.exit(3)"
    )
    plain = _start(folder, "-m", "package", "a", "--b")
    ours = _start(folder, "-c", UNDER, "package", "m", "a", "--b")
    assert (
        (ours.returncode, ours.stdout)
        == (plain.returncode, plain.stdout)
        == (3, "__main__ ['a', '--b'] package\n")
    )


def test_an_interrupt_ends_by_its_signal(folder: Path) -> None:
    ours = _start(folder, "-c", UNDER, "script.py", "s", "interrupt")
    assert ours.returncode == -signal.SIGINT


def test_torch_is_imported_when_the_script_wants_it(folder: Path) -> None:
    (folder / "late.py").write_text(
        "import sys, os\n"
        "assert 'torch' not in sys.modules\n"
        "os.environ['OMP_NUM_THREADS'] = '1'\n"
        "import torch\n"
        "print(torch.__name__, called)\n"
    )
    code = (
        "import builtins\n"
        "from gpuscope.program.script.runner import Program, run, when_imported\n"
        "builtins.called = 0\n"
        "def call(): import torch.optim.optimizer; builtins.called += 1\n"
        "when_imported('torch', call)\n"
        "assert run(Program('late.py')) is None\n"
        "when_imported('torch', call); assert builtins.called == 2\n"
    )
    ours = _start(folder, "-c", code)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "torch 1\n", "")


def test_what_cannot_be_run(folder: Path) -> None:
    with pytest.raises(InputFileError, match="no file"):
        check(Program(str(folder / "none.py")))
    (folder / "bad.py").write_text("def (")
    with pytest.raises(InputFileError, match="line 1"):
        check(Program(str(folder / "bad.py")))
    with pytest.raises(InputFileError, match="no module"):
        check(Program("no_such_module_anywhere", module=True))
    check(Program("json.tool", module=True))
    check(Program(str(folder / "script.py")))


def test_the_environment_is_left_as_it_was(folder: Path) -> None:
    (folder / "env.py").write_text("import os; print(sorted(os.environ))")
    plain, ours = _start(folder, "env.py"), _start(folder, "-c", UNDER, "env.py", "s")
    assert ours.stdout == plain.stdout
    assert os.environ
