"""What recorded kernels were launched with, and how many of their blocks fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gpuscope as gs
from gpuscope.document.blocks import Bars, Facts
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.residency import Launch
from gpuscope.hardware import device
from gpuscope.timeline.types import Timeline
from gpuscope.views.report.kernel_residency import recorded_launch, residency_blocks

H200 = device("nvidia-h200-sxm")
TRACES = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return gs.load(TRACES / "h200" / "compute_bound").timeline


def _event(timeline: Timeline) -> int:
    """An event with registers recorded."""
    assert timeline.recorded is not None
    return int(timeline.recorded.event[np.flatnonzero(timeline.recorded.registers == 168)[0]])


def test_a_product_fills_a_multiprocessor_with_one_block(timeline: Timeline) -> None:
    event = _event(timeline)
    launch = recorded_launch(timeline, event)
    assert isinstance(launch, Launch)
    assert (launch.threads, launch.registers) == (384, 168)
    facts, bars = residency_blocks(timeline, event, H200)
    assert isinstance(facts, Facts)
    assert isinstance(bars, Bars)
    values = {fact.label: fact.value for fact in facts.rows}
    # 168 registers x 384 threads = 64,512 of 65,536: one block; 12 of 64 warps.
    assert values["blocks that fit on one SM"] == 1
    assert values["occupancy that these allow"] == pytest.approx(12 / 64)
    assert bars.limit == min(bar.parts[0].value for bar in bars.bars) == 1.0


def test_what_is_not_recorded_says_nothing(timeline: Timeline) -> None:
    recorded = timeline.recorded
    assert recorded is not None
    copies = np.flatnonzero(recorded.registers < 0)
    assert recorded_launch(timeline, int(recorded.event[copies[0]])) is None
    assert residency_blocks(replace(timeline, recorded=None), 0, H200) == ()
    assert recorded_launch(timeline, len(timeline.events) + 5) is None


def test_a_device_whose_multiprocessors_are_not_known_is_refused(timeline: Timeline) -> None:
    with pytest.raises(GpuscopeError):
        residency_blocks(timeline, _event(timeline), device("tpu-v5e"))
