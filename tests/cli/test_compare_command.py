"""`gpuscope compare`: saved runs against each other."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from run_builders import gpt_run
from typer.testing import CliRunner

from gpuscope.atomic import write_document
from gpuscope.cli.app import app
from gpuscope.run.document import run_document, runs_document
from gpuscope.views.html import read_embedded

sys.path.insert(0, str(Path(__file__).parents[1] / "loading"))

from recordings import trace, write


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUSCOPE_LANG", "en")
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, run in zip(paths, (gpt_run(), gpt_run(hidden=1024)), strict=True):
        write_document(run_document(run), path)
    return [str(path) for path in paths]


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["compare", *arguments])


def test_two_runs(saved) -> None:
    result = invoke(*saved)
    assert result.exit_code == 0
    for part in ("Ratios are to", "By class", "By operator", "addmm", "b − a"):
        assert part in result.stdout


def test_as_json(saved) -> None:
    document = json.loads(invoke(*saved, "--json").stdout)
    assert document["schema"] == "gpuscope.comparison"
    assert document["difference_s"] > 0


def test_report(saved, tmp_path) -> None:
    path = tmp_path / "both.html"
    assert invoke(*saved, "--report", str(path)).exit_code == 0
    embedded = re.search(r'id="data">(.*?)</script>', path.read_text("utf-8"), re.S)
    assert embedded is not None
    assert len(read_embedded(embedded[1])["report"]["runs"]) == 2


def test_a_file_of_several_runs(tmp_path, saved) -> None:
    path = tmp_path / "many.json"
    write_document(runs_document([gpt_run(), gpt_run(), gpt_run()]), path)
    result = invoke(str(path))
    assert result.exit_code == 0
    assert "By class" not in result.stdout


def test_wrong_input(saved, tmp_path) -> None:
    assert invoke(saved[0]).exit_code == 2
    assert invoke(saved[0], str(tmp_path / "missing.json")).exit_code == 2
    assert "There is no file" in invoke(saved[0], str(tmp_path / "missing.json")).stderr
    assert invoke(*saved, saved[0], "--json").exit_code == 2


def test_traces_are_runs_too(tmp_path) -> None:
    for name, late in (("before", 200), ("after", 0)):
        (tmp_path / name).mkdir()
        for rank in range(2):
            write(tmp_path / name / f"rank{rank}.json.gz", trace(rank, ranks=2, late_us=late))
    folders = str(tmp_path / "before"), str(tmp_path / "after")
    result = invoke(*folders)
    assert result.exit_code == 0, result.output
    assert "By operator" in result.stdout
    document = json.loads(invoke(*folders, "--json").stdout)
    # 200 us more work in each step, but the steps' windows are the same.
    classes = {row["label"]: row["difference_s"] for row in document["classes"]}
    assert sum(classes.values()) == pytest.approx(0.0, abs=1e-9)
    apart = [label for label in classes if label.startswith("communication: ")]
    assert sum(classes[label] for label in apart) == pytest.approx(200e-6, rel=0.02)
