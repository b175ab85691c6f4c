from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from gpuscope.cli import app as application
from gpuscope.kept import Store, programs, sources
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Program

NO_TORCH = (
    "import sys\n"
    "class No:\n"
    "    def find_spec(self, name, *rest):\n"
    "        assert name not in ('torch', 'transformers'), name\n"
    "sys.meta_path.insert(0, No())\n"
)
RUN = "from gpuscope.cli import main\nmain()\n"
FSDP = ("--fsdp", "full", "--recompute", "full")
PP = ("--pp", "8", "--tp", "8")
SMALL = ("--layers", "2", "--batch", "1", "--seq", "32")


def _ran(cache: Path, *arguments: str, first: str = "", **environment: str) -> bytes:
    """The JSON document of a command, and that it ended well."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", first + RUN, "predict", *arguments, "--json"],
        capture_output=True,
        env={**os.environ, "GPUSCOPE_CACHE": str(cache), **environment},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout


def _kept(cache: Path) -> int:
    return len(list(cache.rglob("*.kept")))


@pytest.mark.parametrize(
    "arguments",
    [
        ("gpt2", *SMALL),
        pytest.param(("gpt2", "--task", "decode"), marks=pytest.mark.slow),
        pytest.param(("gpt2", *SMALL, "--on", "4xh200"), marks=pytest.mark.slow),
        pytest.param(("llama-3.1-70b", "--on", "16xh200", *FSDP), marks=pytest.mark.slow),
        pytest.param(("gpt-3-175b", "--on", "64xh100", *PP), marks=pytest.mark.slow),
    ],
    ids=["training", "decode", "data parallel", "FSDP", "pipeline"],
)
def test_a_kept_program_gives_the_same_document_without_torch(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    cold = _ran(tmp_path, *arguments)
    assert _kept(tmp_path) == 1
    assert _ran(tmp_path, *arguments, first=NO_TORCH) == cold


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has imported no torch, and an empty folder."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sources, "sys", SimpleNamespace(modules={}))
    monkeypatch.setenv("GPUSCOPE_CACHE", str(tmp_path))
    return tmp_path


def _asked(captured: Program, workload: str = "gpt2") -> Program:
    """What a store gives where a capture would give this."""
    store = Store()
    found: Program = store.captured(workload, WorkloadOptions(), (1, 1), False, lambda: captured)
    store.write()
    return found


def test_damage_is_no_answer(fresh: Path) -> None:
    first, second, third = (Program(name, ()) for name in "abc")
    assert _asked(first) == first
    assert _asked(second) == first
    (file,) = fresh.rglob("*.kept")
    file.write_bytes(file.read_bytes()[:-10])
    assert _asked(third) == third
    assert _asked(first) == third
    assert _asked(first, "gpt2-medium") == first
    assert [each.workload for each in programs()] == ["gpt2-medium", "gpt2"]


def test_a_process_that_had_imported_torch_neither_keeps_nor_takes(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its default type may be another."""
    first, second = Program("a", ()), Program("b", ())
    assert _asked(first) == first
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert _asked(second) == second
    assert _asked(second, "bert") == second
    assert len(programs()) == 1


def test_an_imported_module_that_changed_is_no_answer(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fresh / "a_module_of_theirs.py"
    path.write_text("x = 1\n")
    module = ModuleType("a_module_of_theirs")
    module.__file__ = str(path)
    monkeypatch.setitem(sources.sys.modules, module.__name__, module)
    monkeypatch.setattr(time, "time_ns", lambda: path.stat().st_ctime_ns + 10**10)
    first, second = Program("a", ()), Program("b", ())
    assert _asked(first) == first
    assert _asked(second) == first
    path.write_text("x = 2\n")
    assert _asked(second) == second


@dataclass(frozen=True)
class _Figures:
    step_s: float
    held: tuple[tuple[str, int], ...]
    sorts: dict[tuple[str, str], float]


def _figured(made: _Figures, about: object = 1) -> _Figures:
    """What a store gives where these would be made."""
    store = Store()
    asked = "gpt2", WorkloadOptions(), (1, 1), {"on": about}
    found = store.figures(*asked, _Figures, lambda: made)
    store.write()
    return found


def test_figures_are_kept_to_the_last_digit_and_belong_to_their_machine(fresh: Path) -> None:
    first = _Figures(0.1 + 0.2, (("parameter", 3),), {("matmul", "memory"): 1 / 3})
    other = _Figures(1.0, (), {})
    assert _figured(first) == first
    assert _figured(other) == first
    assert _figured(other, about=2) == other
    assert _asked(Program("a", ())) == Program("a", ())  # no figures are a program
    assert _figured(first, about=2) == other


def test_what_the_program_of_figures_was_captured_with_must_be_as_it_was(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that makes the figures took the program from the store: it imported nothing."""
    path = fresh / "a_module_of_theirs.py"
    path.write_text("x = 1\n")
    module = ModuleType("a_module_of_theirs")
    module.__file__ = str(path)
    monkeypatch.setattr(time, "time_ns", lambda: path.stat().st_ctime_ns + 10**10)
    monkeypatch.setitem(sources.sys.modules, module.__name__, module)
    program = Program("a", ())
    assert _asked(program) == program
    monkeypatch.delitem(sources.sys.modules, module.__name__)
    store = Store()
    asked = "gpt2", WorkloadOptions(), (1, 1)
    first, second = _Figures(1.0, (), {}), _Figures(2.0, (), {})

    def make() -> _Figures:
        assert store.captured(*asked, False, lambda: None) == program
        return first

    assert store.figures(*asked, {}, _Figures, make) == first
    store.write()
    assert Store().figures(*asked, {}, _Figures, lambda: second) == first
    path.write_text("x = 22\n")
    assert Store().figures(*asked, {}, _Figures, lambda: second) == second


def test_the_command_says_what_is_kept_and_removes_it(fresh: Path) -> None:
    _asked(Program("a", ()))
    told = CliRunner().invoke(application.app, ["cache", "--json"])
    assert [each["workload"] for each in json.loads(told.output)["programs"]] == ["gpt2"]
    assert str(fresh) in CliRunner().invoke(application.app, ["cache"]).output
    told = CliRunner().invoke(application.app, ["cache", "--clear"])
    assert told.exit_code == 0
    assert not list(fresh.rglob("*.kept"))
