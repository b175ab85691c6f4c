"""`explain memory`: figures that agree with the prediction, in both languages, from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.document.blocks import Facts
from gpuscope.document.text import render
from gpuscope.errors import UnknownNameError
from gpuscope.explanation.memory import memory
from gpuscope.program.workload import WorkloadOptions

pytest.importorskip("transformers")

SMALL = {"task": "train", "layers": 1, "seq": 64, "batch": 1}


def test_the_peak_is_the_prediction_s() -> None:
    made = gs.explain("memory", "gpt2", **SMALL)
    run = gs.predict("gpt2", options=WorkloadOptions(**SMALL))
    facts = next(b for s in made.sections for b in s.blocks if isinstance(b, Facts))
    assert facts.rows[0].value == run.peak_memory_bytes
    for words in (made.title, *made.summary, *made.assumptions):
        assert words
        assert any("\u4e00" <= c <= "\u9fff" for c in render(words, "zh"))
    assert any("largest batch that fits" in words or "batch of" in words for words in made.summary)


def test_what_does_not_fit_is_said_and_what_would() -> None:
    options = WorkloadOptions(task="train", layers=1, batch=512)
    made = memory("gpt2", on="rtx-4090", options=options)
    facts = next(b for s in made.sections for b in s.blocks if isinstance(b, Facts))
    assert facts.rows[0].value == gs.predict("gpt2", "rtx-4090", options=options).peak_memory_bytes
    assert made.summary[0].startswith("The step does not fit")
    assert "放不下" in render(made.summary[0], "zh")
    assert "fits" in made.summary[2]


def test_unknown_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="bach"):
        gs.explain("memory", "gpt2", bach=8)


FILE = """
import torch

def build():
    layer = torch.nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")
    return lambda: layer(x).sum().backward()
"""


def test_from_the_shell(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    workload = f"{tmp_path / 'mine.py'}:build"
    result = CliRunner().invoke(app, ["explain", "memory", workload, "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["topic"] == "memory"
    wrong = CliRunner().invoke(app, ["explain", "memory", "gpt9"])
    assert wrong.exit_code == 2
    assert "Unknown model 'gpt9'" in wrong.output
