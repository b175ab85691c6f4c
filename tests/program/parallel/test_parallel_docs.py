"""The page on parallel training: its code runs, and what it says by hand is what is captured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sweeps import sweep

pytest.importorskip("torch")

DOCS = Path(__file__).resolve().parents[3] / "docs"


def code(name: str) -> str:
    (found,) = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)
    return str(found)


def test_the_example_runs(capsys) -> None:
    exec(code("parallel.md"), {})
    said = capsys.readouterr().out
    assert "8 ranks (dp 8, fsdp zero1), batch 32 x 1024 tokens, 2 microbatches of 2" in said


def test_both_languages_have_the_same_example_and_figures() -> None:
    assert code("parallel.md") == code("parallel.zh-CN.md")
    tables = [
        re.findall(r"[\d.,]+ (?:GB|GiB|ms)", (DOCS / name).read_text(encoding="utf-8"))
        for name in ("parallel.md", "parallel.zh-CN.md")
    ]
    assert sorted(tables[0]) == sorted(tables[1])


ROW = r"\| `--([a-z]+) (\w+)`.*?\| [\d.]+ GB \| ([\d.]+) GiB \| ([\d.]+) GB \| ([\d.]+) GB \|"


@pytest.mark.parametrize(
    "option", sweep(["fsdp full", "fsdp zero2", "recompute full"], "fsdp zero2")
)
def test_memory_and_traffic_are_what_the_page_says(option: str) -> None:
    from gpuscope import api
    from gpuscope.program.models.parallel.options import ParallelOptions
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.timeline import simulate_memory

    rows = re.findall(ROW, (DOCS / "parallel.md").read_text(encoding="utf-8"))
    said = {f"{name} {value}": tuple(map(float, rest)) for name, value, *rest in rows}
    name, value = option.split()
    asked = ParallelOptions(world=8, **{name: value})  # type: ignore[arg-type]
    program = api.capture("llama-3.1-8b", options=WorkloadOptions(seq=4096, parallel=asked))
    moved = {"allgather": 0, "reduce_scatter": 0}
    for op in program.ops:
        for kind in moved:
            if kind in op.name and op.group >= 0:
                moved[kind] += max(spec.nbytes for spec in (*op.inputs, *op.outputs))
    peak, gathered, summed = said[option]
    assert moved["allgather"] / 1e9 == pytest.approx(gathered, abs=0.06)
    assert moved["reduce_scatter"] / 1e9 == pytest.approx(summed, abs=0.06)
    held = simulate_memory(program, capacity_bytes=141 * 10**9).peak_allocated_bytes
    assert held / 2**30 == pytest.approx(peak, abs=0.25)  # workspaces come on top
