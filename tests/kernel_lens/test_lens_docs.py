"""docs/lens.md: its snippets run, its table is what was counted."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from lens_examples import Seen, access, needs_numba

from gpuscope.document.text import render
from gpuscope.kernel_lens.runner import look

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["lens.md", "lens.zh-CN.md"])
def text(request) -> str:
    return (ROOT / "docs" / request.param).read_text(encoding="utf-8")


@needs_numba
def test_the_launch_runs(text, tmp_path):
    first, second = re.findall(r"```python\n(.*?)```", text, re.S)
    (tmp_path / "scale.py").write_text(first)
    (launch,) = look(str(tmp_path / "scale.py")).launches
    assert access(launch, "x", "load").sectors_per_request == 4
    assert "access.sectors_per_request" in second


@needs_numba
def test_the_python_snippet_runs(text, seen: Seen, monkeypatch, capsys):
    import gpuscope as gs

    asked = []
    monkeypatch.setattr(gs, "lens", lambda *a, **k: asked.append((a, k)) or seen.lens)
    exec(re.findall(r"```python\n(.*?)```", text, re.S)[1], {})
    assert asked == [(("examples/lens/transpose.py:launch",), {"on": "a100"})]
    assert "naive 22 target 32.0 0" in capsys.readouterr().out


def test_the_table_is_what_was_counted(text):
    rows = {}
    for name in ("kernels", "triton"):
        with (ROOT / "tests" / "data" / "lens" / f"h200_{name}.csv").open() as file:
            for row in csv.DictReader(file):
                rows[("Triton " if name == "triton" else "") + f"`{row['kernel']}`"] = row
    found = re.findall(r"^\| ((?:Triton )?`\w+`) \| (.+?) \| ([\d,]+) \| ([\d,]+) \|$", text, re.M)
    assert len(found) == 7
    columns = {
        "sectors loaded": "global_load_sectors",
        "读取扇区": "global_load_sectors",
        "sectors stored": "global_store_sectors",
        "写入扇区": "global_store_sectors",
        "passes of loads": "shared_load_passes",
        "读取遍数": "shared_load_passes",
    }
    for kernel, what, lens, counted in found:
        assert lens == counted == f"{int(rows[kernel][columns[what]]):,}"
    loads = [name for name in rows if "<" in name]
    assert f"{len(loads)} " in text


def test_what_is_shown_is_what_is_printed(text, seen: Seen):
    from gpuscope.kernel_lens.source_view import source_view

    launch = seen.one("naive", "transpose")
    code = source_view(launch, launch.functions[0], 32)
    (line,) = [line for line in code.lines if line.number == 22]
    shown = " ".join(text.split())
    assert line.text in text
    assert line.note is not None
    assert line.note in shown or render(line.note, "zh") in shown
