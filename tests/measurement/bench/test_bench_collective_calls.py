"""Sizes, groups and bandwidths of the collectives' bench."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import UnknownNameError
from gpuscope.measurement.bench.collective_calls import (
    OPERATIONS,
    bandwidths,
    bus_factor,
    group_sizes,
    sizes,
)


def test_bus_factors_are_those_of_nccl_tests() -> None:
    assert bus_factor("all_reduce", 8) == pytest.approx(1.75)
    assert bus_factor("all_gather", 4) == pytest.approx(0.75)
    assert bus_factor("broadcast", 8) == 1.0
    with pytest.raises(UnknownNameError):
        bus_factor("all_shout", 8)


def test_bandwidth_by_hand() -> None:
    # 1 GiB all-reduced by 8 ranks in 5.2 ms: 206 GB/s, 361 GB/s on the bus.
    algorithm, bus = bandwidths("all_reduce", 8, 2**30, 5.2e-3)
    assert algorithm == pytest.approx(206.5e9, rel=1e-3)
    assert bus == pytest.approx(361.4e9, rel=1e-3)


@given(st.sampled_from(OPERATIONS), st.integers(2, 1024))
def test_no_link_carries_more_than_twice_the_message(operation: str, ranks: int) -> None:
    assert 0 < bus_factor(operation, ranks) < 2


def test_sizes_rise_and_end_where_asked() -> None:
    for quick in (False, True):
        found = sizes(2**30, quick=quick)
        assert found[0] == 1024
        assert found[-1] == 2**30
        assert list(found) == sorted(set(found))
    assert len(sizes(2**30, quick=True)) < len(sizes(2**30, quick=False))


@pytest.mark.parametrize(("world", "groups"), [(1, ()), (2, (2,)), (6, (2, 4, 6)), (8, (2, 4, 8))])
def test_groups(world: int, groups: tuple[int, ...]) -> None:
    assert group_sizes(world) == groups
