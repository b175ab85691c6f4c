"""Steps that fit so closely that they may not."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, streaming

from gpuscope.analysis import analyze
from gpuscope.analysis.findings.nearly_full import MARGIN
from gpuscope.analysis.types import Finding
from gpuscope.document.text import render
from gpuscope.program.types import Op, Program, Storage
from gpuscope.timeline.memory import simulate_memory

CAPACITY = H200.memory_usable_bytes


def found(peak_bytes: int) -> Finding | None:
    storages = (Storage(0, peak_bytes, "parameter", -1, None, "fc", "weight"),)
    toy = Program("toy", (Op(index=0, name="aten::mm"),), storages)
    trace = simulate_memory(toy, capacity_bytes=CAPACITY)
    b = TimelineBuilder()
    b.chain([streaming(100)], op=b.op("aten::mm"))
    findings = analyze(b.build(), program=toy, memory=trace, on=H200).findings
    kinds = {f.kind: f for f in findings}
    assert not {"nearly_full", "does_not_fit"} <= set(kinds)
    return kinds.get("nearly_full")


@pytest.mark.parametrize(
    ("share", "told"), [(0.5, False), (0.94, False), (0.96, True), (0.99, True), (1.01, False)]
)
def test_only_what_is_close_is_told(share: float, told: bool) -> None:
    assert (found(int(share * CAPACITY)) is not None) is told


def test_the_limit_is_the_margin() -> None:
    edge = int(CAPACITY / (1 + MARGIN))
    assert found(edge - 2**22) is None
    assert found(edge + 2**22) is not None


def test_what_it_says() -> None:
    close = found(int(0.98 * CAPACITY))
    assert close is not None
    assert close.max_gain_s is None
    assert close.title.startswith("The step may not fit: 13")
    assert "5 %" in close.evidence or "5%" in close.evidence
    assert "可能放不下" in (render(close.title, "zh") or "")
