"""The page of `watch`: what it promises holds, its examples run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from gpuscope.cli import app as application
from gpuscope.document.text import render
from gpuscope.watch import thresholds as at
from gpuscope.watch.recording import read_sample
from gpuscope.watch.verdict import HEADS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ["watch.md", "watch.zh-CN.md"]


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_python_examples_run(name: str, capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page(name), flags=re.S)
    assert len(blocks) == 1
    exec(compile(blocks[0], name, "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.startswith("[")


@pytest.mark.parametrize("name", PAGES)
def test_the_example_line_is_a_sample(name: str) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", page(name), flags=re.S)
    sample = read_sample(json.loads(block))
    assert sample.devices[0].activity.sm == 0.045


@pytest.mark.parametrize("name", PAGES)
def test_every_option_that_is_named_exists(name: str) -> None:
    command = typer.main.get_command(application.app).commands["watch"]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    lines = re.findall(r"gpuscope watch([^`\n|]*)", page(name))
    named = {w for line in lines for w in shlex.split(line.split(">")[0]) if w.startswith("--")}
    assert {"--once", "--replay", "--hosts", "--attach", "--serve"} <= named <= known


def test_thresholds_are_as_written() -> None:
    text = page("watch.md")
    for figure in (
        f"less than {at.IDLE * 100:.0f} %",
        f"heat in {at.HEAT * 100:.0f} %",
        f"at {at.AT_POWER_LIMIT * 100:.0f} % of the limit",
        f"busy {at.STEADY * 100:.0f} %",
        f"tensor cores {at.TENSOR_BUSY * 100:.0f} %",
        f"SMs {at.SM_FULL * 100:.0f} %",
        f"memory bandwidth {at.DRAM_BUSY * 100:.0f} %",
        f"({at.LINKS_BUSY_BYTES_PER_S / 1e9:.0f} GB/s where",
    ):
        assert figure in text, figure


def test_every_verdict_is_explained() -> None:
    for kind, head in HEADS.items():
        if kind != "unknown":
            assert f"| {head.lower()} |" in page("watch.md")
            assert f"| {render(head, 'zh')} |" in page("watch.zh-CN.md")


@pytest.mark.parametrize("name", PAGES)
def test_the_cost_is_as_measured(name: str) -> None:
    results = DOCS.parent / "benchmarks" / "results" / "watch_cost.json"
    measured = json.loads(results.read_text())
    for mode in ("json_lines", "live"):
        row = measured[mode]
        percent = float(f"{row['cpu_share_of_a_core'] * 100:.2g}")
        assert f"| {percent:g} % |" in page(name)
        assert f"{row['resident_bytes_last'] / 1e6:.0f} MB" in page(name)
        assert row["open_files_first"] == row["open_files_last"]
        assert row["threads_first"] == row["threads_last"]
