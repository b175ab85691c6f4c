"""A sweep over numbers of devices: each point a job of its own."""

from __future__ import annotations

import pytest

import gpuscope as gs
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.settings import WorkloadOptions


def test_more_devices_share_the_work_of_a_step() -> None:
    options = WorkloadOptions(
        task="train", layers=2, seq=128, parallel=ParallelOptions(global_batch=8, fsdp="full")
    )
    points = gs.sweep("llama-3.2-1b", "h200", "devices", [2, 8], options=options)
    (few, first), (many, second) = points
    assert (few, many) == (2, 8)
    assert (first.world_size, second.world_size) == (2, 8)
    assert first.tokens == second.tokens == 8 * 128
    assert second.step_time_s < first.step_time_s
    assert (second.peak_memory_bytes or 0) < (first.peak_memory_bytes or 0)


@pytest.mark.parametrize("value", [0, 2.5, -8])
def test_devices_are_counted(value: float) -> None:
    with pytest.raises(InvalidValueError, match="devices cannot be"):
        gs.sweep("gpt2", "h200", "devices", [value])
