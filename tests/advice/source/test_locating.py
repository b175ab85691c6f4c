"""Targets that another process can find, and those that it cannot."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from gpuscope.advice.results import Target
from gpuscope.advice.source.locating import locate
from gpuscope.errors import (
    GpuscopeError,
    InputFileError,
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    WorkloadError,
)
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.workload import WorkloadOptions


def build() -> object:
    return lambda: None


@functools.cache
def wrapped() -> object:
    return lambda: None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("def build(): ...\ndef other(): ...\n")
    (tmp_path / "script.py").write_text("print('hello')\n")
    return tmp_path


def test_functions_of_files(folder: Path) -> None:
    assert locate("train.py:other").target == Target("build", "train.py:other")
    assert locate("train.py").target == Target("build", "train.py:build")
    assert locate("train.py").short_name == "train-build"


def test_scripts(folder: Path) -> None:
    found = locate("script.py", arguments=("--lr", "1"))
    assert found.target == Target("script", "script.py", {}, ("--lr", "1"))
    assert found.short_name == "script"
    assert locate("train.py", arguments=("x",)).target.kind == "script"


def test_built_in_models_take_their_options() -> None:
    found = locate("gpt2", WorkloadOptions(batch=4, dtype="float32"))
    assert found.target == Target("build", "gpt2", {"batch": 4, "dtype": "float32"})
    assert found.file is None
    assert WorkloadOptions(**found.target.options) == WorkloadOptions(batch=4, dtype="float32")  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [build, wrapped])
def test_a_function_is_found_by_its_file(function: object) -> None:
    found = locate(function)  # type: ignore[arg-type]
    assert found.file is not None
    assert found.file.resolve() == Path(__file__).resolve()
    assert found.target.name.endswith(f"test_locating.py:{function.__name__}")  # type: ignore[attr-defined]


def _inner() -> object:
    def build() -> None: ...

    return build


@pytest.mark.parametrize("function", [lambda: None, _inner(), 3, functools.partial(build)])
def test_what_no_other_process_finds(function: object) -> None:
    with pytest.raises(WorkloadError) as caught:
        locate(function)  # type: ignore[arg-type]
    assert "file.py:build" in caught.value.next_step


def test_a_function_of_a_session() -> None:
    space: dict[str, object] = {}
    exec(compile("def build(): ...", "<stdin>", "exec"), space)
    with pytest.raises(WorkloadError, match="not in a file"):
        locate(space["build"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "arguments", "error"),
    [
        ("missing.py:build", (), InputFileError),
        ("train.py:build", ("x",), InvalidValueError),
        ("gpt2", ("x",), InvalidValueError),
        ("gpt22", (), UnknownNameError),
        ("none.json", (), GpuscopeError),
    ],
)
def test_wrong_targets(
    folder: Path, target: str, arguments: tuple[str, ...], error: type[GpuscopeError]
) -> None:
    with pytest.raises(error):
        locate(target, arguments=arguments)


def test_a_ready_made_job_is_not_tried() -> None:
    with pytest.raises(UnsupportedError, match="several devices"):
        locate("gpt2", WorkloadOptions(parallel=ParallelOptions()))
