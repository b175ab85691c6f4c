"""Whose modules stay."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from gpuscope.program.script import Script
from gpuscope.program.script.own_modules import own_modules


def test_modules_stay_for_the_same_script_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own_part.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "train.py").write_text("")
        scripts.append(Script(str(tmp_path / name / "train.py")))

    def imported(script: Script) -> object:
        monkeypatch.syspath_prepend(str(Path(script.target).parent))
        with own_modules(script):
            return importlib.import_module("own_part")

    one = imported(scripts[0])
    assert imported(scripts[0]) is one
    two = imported(scripts[1])
    assert (one.NAME, two.NAME) == ("one", "two")  # type: ignore[attr-defined]
    assert imported(scripts[0]) is not one
    assert "torch" in sys.modules
    with own_modules(Script(str(tmp_path / "two" / "train.py"))):
        assert "own_part" not in sys.modules
