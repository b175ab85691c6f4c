"""What analyses, predictions and errors say is said in every language: no English is left over.

The pseudo-language brackets what went through the catalogue; two English words outside of brackets
are a sentence that did not.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text, render
from gpuscope.errors import GpuscopeError
from gpuscope.run import Run

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "tests" / "data" / "traces"

CHINESE = re.compile("[\u4e00-\u9fff]")
WORDS = re.compile(r"\b[A-Za-z][a-z]{2,} (?:\([a-z]+\) )?[a-z]{3,}")
BRACKETED = re.compile("⟦[^⟧]*⟧")


def told(run: Run) -> Iterator[str]:
    """Every sentence that a run holds."""
    analysis = run.analysis
    yield from run.assumptions
    for finding in analysis.findings:
        yield from (finding.title, finding.evidence, finding.hint)
    if analysis.energy is not None:
        yield analysis.energy.source
    if analysis.utilisation is not None:
        yield analysis.utilisation.definition
    if analysis.trust is not None:
        yield from (remark.sentence for remark in analysis.trust.remarks)
    if analysis.ranks is not None:
        yield analysis.ranks.sentence
    if analysis.job is not None:
        yield analysis.job.limit
    yield from {kernel.note for kernel in run.timeline.kernels if isinstance(kernel, Kernel)}


def english_left(text: str) -> bool:
    """Whether words of a text did not go through the catalogue, or have no Chinese."""
    outside = BRACKETED.sub("|", render(text, "qps"))
    return bool(WORDS.search(outside)) or not CHINESE.search(render(text, "zh"))


def test_english_that_is_left_is_found() -> None:
    assert english_left("1 node(s) with eight devices each.")
    assert english_left(Text("1 node with 8 {what}", what="devices each"))
    assert not english_left(Text("Warming up …"))


def _example(monkeypatch: pytest.MonkeyPatch, layers: int) -> object:
    spec = importlib.util.spec_from_file_location("fsdp_tp", ROOT / "examples" / "fsdp_tp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LAYERS", layers)
    return module.build


def test_a_predicted_job_is_told_without_english(monkeypatch: pytest.MonkeyPatch) -> None:
    run = gs.predict(_example(monkeypatch, 1), on="8xh200")
    assert run.assumptions
    assert [text for text in told(run) if text and english_left(text)] == []
    nodes = next(text for text in run.assumptions if "1 node with 8 devices each." in text)
    assert render(nodes, "zh") == "1 个节点，每个 8 个设备。"


@pytest.mark.parametrize(
    "name",
    [
        "4xh200/ddp_slow_host",
        "4xh200/ddp_imbalance",
        "4xh200/fsdp",
        "h200/sync_bound",
        "h200/pageable_copies",
        "h200/two_streams",
        "h200/graph_decode",
    ],
)
def test_a_recording_is_told_without_english(name: str) -> None:
    path = next(path for path in (TRACES / name, *TRACES.glob(f"{name}.*")) if path.exists())
    run = gs.load(path)
    assert [text for text in told(run) if text and english_left(text)] == []


@pytest.mark.parametrize(
    "raising",
    [
        lambda: gs.predict("nosuch", on="h200"),
        lambda: gs.predict("gpt2", on="12xh200"),
        lambda: gs.predict("gpt2", on="h201"),
        lambda: gs.device("h200").replace(colour=3),
        lambda: gs.load("no/such/trace.json"),
    ],
)
def test_errors_are_told_without_english(raising: object) -> None:
    with pytest.raises(GpuscopeError) as caught:
        raising()  # type: ignore[operator]
    error = caught.value
    parts = [text for text in (error.what, error.why, error.next_step) if text]
    assert [text for text in parts if english_left(text)] == []
