"""What `make demo` and `make test` install, with stand-ins for Python, pip and uv."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("sh", "bash", "cat", "chmod", "cp", "dirname", "grep", "mkdir", "sleep", "touch")
PYTHON = """#!/bin/sh
echo "python $*" >>"$LOG"
case "$*" in
-c*) exit "${OLD_PYTHON:-0}" ;;
"-") grep -q 'version("torch")' && echo "$HAS_TORCH" ;;
*"-m venv"*) for folder; do :; done; mkdir -p "$folder/bin"; cp "$0" "$folder/bin/python" ;;
*--report*) echo "$PIP_WOULD_TAKE" ;;
*--index-url*) exit "${NO_CPU_INDEX:-0}" ;;
esac
"""
CUDA_S = '"requires_dist": ["nvidia-cudnn-cu13==9.20"]'
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, (*TOOLS, "make"))), reason="needs a POSIX shell and make"
)


class Machine:
    """A folder of the project's set-up, and a PATH with little on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.path = folder, folder / "log", folder / "path"
        self.path.mkdir()
        for name in TOOLS:
            (self.path / name).symlink_to(str(shutil.which(name)))
        self.has("uname", "#!/bin/sh\necho Linux\n")
        self.has("python3", PYTHON)
        for name in ("Makefile", "constraints.txt", "pyproject.toml", "tools/setup.sh"):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / name)

    def has(self, name: str, text: str = '#!/bin/sh\necho "${0##*/} $*" >>"$LOG"\n') -> None:
        """A program that it has."""
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def setup(self, kind: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it; nothing is waited for."""
        known = {"PATH": str(self.path), "LOG": str(self.log), "WAIT_S": "0"}
        return subprocess.run(
            ["sh", "tools/setup.sh", kind, "env"],
            cwd=self.folder,
            env={**known, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def ran(self) -> list[str]:
        """What was run, without what was only asked."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if "venv" in line or "install" in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_pytorch_that_is_there_is_used(machine: Machine) -> None:
    done = machine.setup("demo", HAS_TORCH="2.9.1+cu130")
    assert done.returncode == 0, done.stderr
    assert "PyTorch 2.9.1+cu130" in done.stdout
    made, installed = machine.ran()
    assert made == "python -m venv --system-site-packages env"
    assert installed.endswith("-c env/constraints.txt -e .[models]")
    constraints = (machine.folder / "env/constraints.txt").read_text()
    assert "torch==2.9.1+cu130\n" in constraints
    assert constraints.count("\ntorch==") + constraints.startswith("torch==") == 1
    assert "\ntransformers==" in constraints
    assert (machine.folder / "env/.ready").exists()


def test_the_cpu_build_is_taken_without_a_warning(machine: Machine) -> None:
    done = machine.setup("demo")
    assert done.returncode == 0, done.stderr
    _, torch, rest = machine.ran()
    assert "--index-url https://download.pytorch.org/whl/cpu torch" in torch
    assert rest.endswith("-c constraints.txt -e .[models]")
    assert "3 GB" not in done.stdout


@pytest.mark.parametrize(("taken", "warned"), [(CUDA_S, True), ('"requires_dist": []', False)])
def test_gigabytes_are_told_before_they_come(machine: Machine, taken: str, warned: bool) -> None:
    done = machine.setup("demo", NO_CPU_INDEX="1", PIP_WOULD_TAKE=taken)
    assert done.returncode == 0, done.stderr
    *_, rest = machine.ran()
    assert rest.endswith("-c constraints.txt -e .[models]")
    assert ("3 GB" in done.stdout) is warned
    if warned:
        assert done.stdout.index("3 GB") < done.stdout.index("what else is needed")


def test_uv_is_told_which_build(machine: Machine) -> None:
    machine.has("uv")
    assert machine.setup("demo").returncode == 0
    _, installed = machine.ran()
    assert installed.startswith("uv pip install")
    assert "--torch-backend cpu" in installed
    assert installed.endswith("-e .[models]")


def test_pip_goes_on_where_uv_fails(machine: Machine) -> None:
    machine.has("uv", "#!/bin/sh\nexit 1\n")
    assert machine.setup("demo").returncode == 0
    assert machine.ran()[-1].endswith("-c constraints.txt -e .[models]")


@pytest.mark.parametrize(("gpu", "backend"), [(True, "auto"), (False, "cpu")])
def test_development_has_an_environment_of_its_own(
    machine: Machine, gpu: bool, backend: str
) -> None:
    machine.has("uv")
    if gpu:
        machine.has("nvidia-smi")
    assert machine.setup("dev", HAS_TORCH="2.9.1").returncode == 0
    made, installed = machine.ran()
    assert made == "python -m venv env"
    assert f"--torch-backend {backend}" in installed
    assert installed.endswith("-e .[dev,models]")


def test_an_old_python_is_told(machine: Machine) -> None:
    done = machine.setup("dev", OLD_PYTHON="1")
    assert done.returncode == 2
    assert "Python 3.11" in done.stderr
    assert not (machine.folder / "env").exists()


def planned(machine: Machine, goal: str) -> str:
    """What make would run."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "VENV"))}
    return subprocess.run(
        ["make", "--dry-run", goal],
        cwd=machine.folder,
        env=known,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_demo_takes_what_is_set_up(machine: Machine) -> None:
    fresh = planned(machine, "demo")
    assert "setup.sh demo .venv-demo" in fresh
    assert ".venv-demo/bin/gpuscope predict" in fresh
    for name in (".venv-demo", ".venv"):
        (machine.folder / name).mkdir()
        (machine.folder / name / ".ready").touch()
        again = planned(machine, "demo")
        assert "setup.sh" not in again
        assert f"\n{name}/bin/gpuscope predict" in again
    assert "setup.sh" not in planned(machine, "lint")


def test_development_is_set_up_for_tests(machine: Machine) -> None:
    assert "setup.sh dev .venv" in planned(machine, "lint")
