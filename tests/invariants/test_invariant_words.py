"""A limiter that is not the largest term, and "most" of less than half, are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spoilt import found, sound, with_analysis, with_page

from gpuscope.analysis.types import Finding
from gpuscope.cost.types import Kernel
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text


def test_a_sound_run_passes() -> None:
    assert found("words", sound()) == []


def test_the_step_is_limited_by_its_largest_class() -> None:
    assert len(found("words", with_page("figures", "limiter", value="launch-bound"))) == 1


@pytest.mark.parametrize(("limiter", "wrong"), [("tensor_core", 1), ("memory", 0)])
def test_a_product_that_waits_for_memory(limiter: str, wrong: int) -> None:
    kernel = Kernel(
        "gemv", "matmul", 0, 20e-6, 19e-6, 21e-6, compute_s=1e-6, memory_s=18e-6, limiter=limiter
    )  # type: ignore[arg-type]
    output = sound()
    timeline = replace(output.run.timeline, kernels=(kernel,))
    changed = replace(output, run=replace(output.run, timeline=timeline))
    assert len(found("words", changed)) == wrong


@pytest.mark.parametrize(("share", "wrong"), [(0.282, 1), (0.51, 0)])
def test_most_is_more_than_half(share: float, wrong: int) -> None:
    title = Text("Most of its time is bandwidth-bound: {share}.", share=Percent(share))
    finding = Finding("bandwidth_bound", title, "", 1e-3)
    assert len(found("words", with_analysis(findings=(finding,)))) == wrong
