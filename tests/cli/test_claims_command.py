"""`gpuscope claims` through the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app


@pytest.fixture(autouse=True)
def _english(monkeypatch) -> None:
    monkeypatch.setenv("GPUSCOPE_LANG", "en")


def _invoke(*arguments: str):
    return CliRunner().invoke(app, ["claims", *arguments])


def test_words_verdict_and_topic_narrow_it() -> None:
    shown = _invoke("nvlink", "--verdict", "wrong", "--topic", "interconnect")
    assert shown.exit_code == 0
    assert "C-022" in shown.stdout
    assert "E-052" not in shown.stdout  # right
    assert "No claim matches." in _invoke("no such words").stdout


def test_without_words_it_is_an_overview_and_with_all_everything() -> None:
    assert "A-018" not in _invoke().stdout
    assert "interconnect" in _invoke().stdout
    assert "A-018" in _invoke("--all").stdout


def test_one_in_depth_by_its_id() -> None:
    shown = _invoke("c-022")
    assert shown.exit_code == 0
    assert "how we know" in shown.stdout
    both = _invoke("c-022", "A-005").stdout
    assert all(id in both for id in ("C-022", "A-005"))
    assert "how we know" not in both
    assert "错误" in _invoke("c-022", "--lang", "zh").stdout


def test_json() -> None:
    document = json.loads(_invoke("pcie", "--json").stdout)
    assert document["schema"] == "gpuscope.claims"
    assert {"C-015", "C-016"} <= {claim["id"] for claim in document["claims"]}
    assert len(json.loads(_invoke("A-005", "--json").stdout)["claims"]) == 1


def test_files(tmp_path) -> None:
    saved, page = tmp_path / "claims.json", tmp_path / "claims.html"
    shown = _invoke("--output", str(saved), "--report", str(page), "--lang", "zh")
    assert shown.exit_code == 0
    assert len(json.loads(saved.read_text("utf-8"))["claims"]) > 200
    assert "gpuscope.claims" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--verdict", "wrongg"), "Did you mean: wrong"),
        (("--topic", "memmory"), "Did you mean: memory"),
        (("--report", "/no/such/folder/x.html"), "/no/such/folder"),
    ],
)
def test_what_cannot_be_is_told(arguments, said) -> None:
    shown = _invoke(*arguments)
    assert shown.exit_code == 2
    assert said in shown.output.replace("\n", " ")
    assert "Traceback" not in shown.output
