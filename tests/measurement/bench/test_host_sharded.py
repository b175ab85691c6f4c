"""Made-up programs of `torch.distributed`, timed on this CPU."""

from __future__ import annotations

from statistics import median

import pytest

from gpuscope.measurement.bench import host_sharded
from gpuscope.measurement.bench.host_timing import HostTimer


@pytest.fixture(scope="module")
def timer() -> HostTimer:
    timer = HostTimer("cpu")
    host_sharded.measure_sharded(timer, repeats=3)
    return timer


def test_every_program_has_its_passes(timer: HostTimer) -> None:
    assert not timer.failures
    modes = ("grad", "backward", "step")
    passes = {(s.name, s.variant): len(s.seconds) for s in timer.samples if s.variant in modes}
    assert passes == {(name, mode): 3 for name in host_sharded.PROGRAMS for mode in modes}
    calls = {s.name for s in timer.samples if s.variant not in modes}
    assert calls == {"all_reduce", "all_gather"}


def test_dtensor_takes_several_times_as_long_as_what_it_holds(timer: HostTimer) -> None:
    found = {(s.name, s.variant): median(s.seconds) for s in timer.samples}
    for mode in ("grad", "backward"):
        assert found["tensor_parallel", mode] > 2 * found["whole", mode]
        assert found["sequence_parallel", mode] > found["tensor_parallel", mode]


def test_the_group_is_gone_afterwards(timer: HostTimer) -> None:
    import torch.distributed as dist

    assert not dist.is_initialized()
