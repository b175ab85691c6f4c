"""The pages on benches: their Python runs, their commands exist, both languages alike."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measurement" / "bench"))

from bench_builders import result

from gpuscope.measurement.bench.store import save_bench

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("bench.md", "bench.zh-CN.md")


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(page: str, tmp_path, monkeypatch, capsys) -> None:
    save_bench(result(), tmp_path / "bench-nvidia-h200-node7")
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", text(page), re.DOTALL):
        exec(compile(block, page, "exec"), {})
    assert "matmul" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_options_and_benches_exist(page: str) -> None:
    pytest.importorskip("torch")
    from typer.testing import CliRunner

    from gpuscope.cli.app import app
    from gpuscope.measurement.bench.registry import benches

    shown = CliRunner().invoke(app, ["bench", "--help"]).stdout
    assert [o for o in set(re.findall(r"--[a-z]+", text(page))) if o not in shown] == []
    assert [b.name for b in benches() if f"`{b.name}`" not in text(page)] == []


def test_both_languages_have_the_same_parts() -> None:
    english, chinese = (text(page) for page in PAGES)
    assert english.count("\n## ") == chinese.count("\n## ")
    assert english.count("\n| ") == chinese.count("\n| ")
