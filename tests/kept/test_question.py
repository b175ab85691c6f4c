from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuscope.kept import question, sources
from gpuscope.kept.question import Surroundings, question_of
from gpuscope.program.models.settings import WorkloadOptions

HERE = Surroundings({"TORCH_X": "1", "TERM": "xterm"}, ())


def _asked(
    workload: str = "gpt2",
    options: WorkloadOptions | None = None,
    ranks: tuple[int, int] = (1, 1),
    strict: bool = False,
    around: Surroundings = HERE,
) -> str | None:
    return question_of(workload, options or WorkloadOptions(), ranks, strict, around)


def test_all_that_decides_makes_another_question() -> None:
    asked = {
        _asked(),
        _asked("gpt2-medium"),
        _asked(options=WorkloadOptions(dtype="float16")),
        _asked(options=WorkloadOptions(batch=1)),
        _asked(ranks=(8, 8)),
        _asked(ranks=(8, 4)),
        _asked(strict=True),
        _asked(around=replace(HERE, environment={"TORCH_X": "2"})),
        _asked(around=replace(HERE, path=("/nowhere",))),
    }
    assert None not in asked
    assert len(asked) == 9
    assert _asked() == _asked(around=replace(HERE, environment={"TORCH_X": "1", "TERM": "vt100"}))


def test_another_version_of_a_distribution_is_another_question(tmp_path: Path) -> None:
    around = replace(HERE, path=(str(tmp_path),))
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    first = _asked(around=around)
    (tmp_path / "notes.html").write_text("no module")
    assert _asked(around=around) == first
    (tmp_path / "torch-2.13.0.dist-info").rename(tmp_path / "torch-2.13.1.dist-info")
    second = _asked(around=around)
    (tmp_path / "transformers.py").write_text("shadows")
    assert len({first, second, _asked(around=around)}) == 3


def test_another_version_of_ours_is_another_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _asked()
    source = tmp_path / "program" / "x.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    monkeypatch.setattr(question.gpuscope, "__file__", str(tmp_path / "__init__.py"))
    second = _asked()
    source.write_text("x = 2\n")
    third = _asked()
    monkeypatch.setattr(question.gpuscope, "__version__", "9")
    assert len({first, second, third, _asked()}) == 4


def test_a_changed_configuration_is_another_question(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "gpt2"}')
    by_file, by_folder = _asked(str(config)), _asked(str(tmp_path))
    about = config.stat()
    config.write_text('{"model_type": "gpt3"}')
    os.utime(config, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert by_file != _asked(str(config))
    assert by_folder != _asked(str(tmp_path))


def test_users_code_is_not_asked_for(tmp_path: Path) -> None:
    assert _asked("train.py") is None
    assert _asked("train.py:build") is None
    assert _asked("train", WorkloadOptions(module=True)) is None


def test_sources_are_those_of_modules_and_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a_module_of_theirs.py"
    path.write_text("x = 1\n")
    os.utime(path, ns=(10**9 + 1, 10**9 + 1))
    monkeypatch.syspath_prepend(tmp_path)
    __import__("a_module_of_theirs")
    monkeypatch.delitem(sys.modules, "__main__")
    about = path.stat()
    found = sources.as_they_are(about.st_ctime_ns + 10**9)
    assert found is not None
    mine = [each for each in found if each[0] == str(path)]
    assert len(mine) == 1
    assert sources.unchanged(mine)
    # Changed since the process began: imported before or after, who knows.
    assert sources.as_they_are(about.st_ctime_ns - 10**9) is None
    path.write_text("x = 2\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert not sources.unchanged(mine)
    path.unlink()
    assert not sources.unchanged(mine)
    monkeypatch.delitem(sys.modules, "a_module_of_theirs")
