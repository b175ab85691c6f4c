"""`gpuscope lens`: what it prints and writes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

BRANCHES = str(Path(__file__).resolve().parents[2] / "examples" / "lens" / "branches.py")

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="Numba is not installed"
)


def _run(*arguments: str):
    return CliRunner().invoke(app, ["lens", *arguments])


@needs_numba
def test_it_prints_lines_with_remarks_and_writes_files(tmp_path):
    page, data = tmp_path / "lens.html", tmp_path / "lens.json"
    files = ("--report", str(page), "--output", str(data))
    result = _run(f"{BRANCHES}:launch", *files, "--on", "a100")
    assert result.exit_code == 0, result.output
    assert "by_loop" in result.output
    assert "50 % of the lanes active" in result.output
    assert "A100" in result.output
    document = json.loads(data.read_text())
    assert document["topic"] == "lens"
    assert "by_lane" in page.read_text()


@needs_numba
def test_json_alone_on_the_standard_output(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(Path(BRANCHES).read_text() + "\n    print('noise')\n")
    result = _run(str(file), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["topic"] == "lens"


@needs_numba
def test_in_chinese():
    result = _run(BRANCHES, "--lang", "zh", "--quiet")
    assert result.exit_code == 0
    assert "线程在执行" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.py:launch",), "no file"),
        ((f"{BRANCHES}:lunch",), "no function 'lunch'"),
        ((BRANCHES, "--on", "tpu-v5e"), "does not know how"),
        ((BRANCHES, "--limit", "0"), "must be positive"),
    ],
)
def test_wrong_input_is_told(arguments, said):
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


def test_help_says_what_the_function_is():
    assert "A function without arguments" in " ".join(_run("--help").output.split())
