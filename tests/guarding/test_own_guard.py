"""The guard guards this repository: its models, held against its own baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

ROOT = Path(__file__).resolve().parents[2]


def test_our_own_models_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, ["guard", "--json", "--quiet"])
    told = json.loads(done.stdout)
    others = {name for name, then, now in told["versions"] if name in ("torch", "transformers")}
    if others and told["failed"]:
        pytest.skip(f"predicted with another {' and '.join(sorted(others))} than the baseline")
    worse = [
        f"{each['workload']} on {each['device']}: {held['fact']} {held['before']} -> {held['now']}"
        for each in told["judged"]
        for held in each["held"]
        if held["verdict"] == "worse"
    ]
    assert not worse, "if it is meant: gpuscope guard --update"
    assert done.exit_code == 0
    assert not told["gone"]
