"""`gpuscope schema`, and what every verb prints held against it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpuscope.cli.app import app, make_app
from gpuscope.views.schemas import DOCUMENTS, json_schema

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
TRACE = str(DATA / "traces" / "h200" / "pageable_copies" / "rank-0.json.gz")
OTHER = str(sorted((DATA / "traces" / "h200").glob("*/rank-0.json.gz"))[0])
MACHINE = str(sorted((DATA / "machines").glob("*.json*"))[0])
SAMPLES = str(DATA / "watch" / "h200-x2-memory-held.jsonl")
MLP = """
import torch

def build():
    model = torch.nn.Linear(64, 8).cuda()
    def step():
        model(torch.randn(32, 64, device="cuda")).square().mean().backward()
    return step
"""

PRINTED = {
    "run": ("predict", "work.py:build", "--on", "h200", "--json"),
    "job": ("predict", "work.py:build", "--on", "2xh200", "--json"),
    "runs": ("predict", "work.py:build", "--on", "h200,h100", "--json"),
    "sweep": (
        "predict",
        "work.py:build",
        "--on",
        "h200",
        "--sweep",
        "memory_bandwidth=4TB/s,8TB/s",
        "--json",
    ),
    "trace": ("analyze", TRACE, "--json"),
    "advice": ("advise", TRACE, "--json"),
    "differences": ("compare", TRACE, OTHER, "--json"),
    "explain": ("explain", "matmul", "512", "512", "512", "--on", "h200", "--json"),
    "lens": ("lens", str(ROOT / "examples" / "lens" / "transpose.py:launch"), "--json"),
    "learn": ("learn", "--json"),
    "claims": ("claims", "--json"),
    "serve": ("serve", "llama-3.1-8b", "--on", "h200", "--rate", "2", "--requests", "20", "--json"),
    "servings": (
        *("serve", "llama-3.1-8b", "--on", "h200", "--concurrency", "1,4"),
        *("--requests", "20", "--json"),
    ),
    "doctor": ("doctor", "--replay", MACHINE, "--json"),
    "checks": ("doctor", "--list", "--json"),
    "machines": ("doctor", "--replay", MACHINE, "--compare", MACHINE, "--json"),
    "watch": ("watch", "--replay", SAMPLES, "--once", "--json-lines"),
    "devices": ("devices", "--json"),
    "models": ("models", "--json"),
    "cache": ("cache", "--json"),
}
"""Cheap questions; what needs trials, a server or a GPU is held where its test plays it."""

LONG = {
    "plan": ("plan", "llama-3.2-1b", "--on", "h100", "--devices", "1", "--simulate", "1", "--json"),
    "fit": ("fit", "llama-3.2-1b", "--method", "qlora", "--on", "rtx-4090", "--json"),
}
"""Questions that take half a minute and more."""

ELSEWHERE = ("bench", "guard", "load", "measure", "optimize")


@pytest.mark.parametrize(
    "case", [*PRINTED, *(pytest.param(case, marks=pytest.mark.slow) for case in LONG)]
)
def test_what_is_printed_fits(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits_schema: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text(MLP)
    done = CliRunner().invoke(app, {**PRINTED, **LONG}[case])
    assert done.exit_code in (0, 3), done.output
    fits_schema(done.stdout)


def test_every_verb_that_prints_json_is_held() -> None:
    verbs = typer.main.get_command(make_app()).commands
    asked = {
        name
        for name, verb in verbs.items()
        if any({"--json", "--json-lines"} & set(each.opts) for each in verb.params)
    }
    for verb in ELSEWHERE:
        held = (Path(__file__).parent / f"test_{verb}_command.py").read_text("utf-8")
        assert "fits_schema(" in held
    assert asked | {"explain"} == {p[0] for p in PRINTED.values()} | {*ELSEWHERE, *LONG}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_is_a_schema_and_in_the_docs(name: str) -> None:
    validators = pytest.importorskip("jsonschema")
    printed = CliRunner().invoke(app, ["schema", name])
    schema = json.loads(printed.stdout)
    validators.Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"gpuscope.{name}"
    for page in ("json.md", "json.zh-CN.md"):
        assert f"`gpuscope.{name}`" in (ROOT / "docs" / page).read_text("utf-8")


def test_the_list_and_an_unknown_one() -> None:
    assert CliRunner().invoke(app, ["schema"]).stdout.split() == list(DOCUMENTS)
    wrong = CliRunner().invoke(app, ["schema", "runn"])
    assert wrong.exit_code == 2
    assert "Did you mean: run, runs?" in wrong.stderr


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run.pop("step_time_s"),
        lambda run: run.update(step_time_s="1 s"),
        lambda run: run.update(step_time_interval_s=[1.0]),
        lambda run: run["timeline"]["events"].update(kind=["kernel"]),
        lambda run: run.update(version=1),
    ],
)
def test_a_spoilt_document_does_not_fit(spoil: Callable[[Any], object]) -> None:
    validators = pytest.importorskip("jsonschema")
    validator = validators.Draft202012Validator(json_schema("gpuscope.run"))
    done = CliRunner().invoke(app, ["analyze", TRACE, "--json"])
    document = json.loads(done.stdout)
    spoil(document)
    assert not validator.is_valid(document)


def test_a_figure_says_what_it_is() -> None:
    step = json_schema("run")["properties"]["step_time_s"]
    assert step == {"type": ["number", "null"], "description": "time of one steady step."}
