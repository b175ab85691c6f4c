"""NCCL's own estimate, against its table by hand and against what it was seen to choose."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from gpuscope.cost.collective.torus import DMA
from gpuscope.cost.collective.tuner import estimate_s
from gpuscope.cost.collective.types import way
from gpuscope.cost.collective.ways import NCCL, chosen, group_of, tuning_of, ways
from gpuscope.cost.registry import Constants
from gpuscope.hardware import calibration_for, device, parse_target

NODE = parse_target("8xh200")
H200 = replace(tuning_of(Constants(calibration_for(device("h200")))), nvls=False)
PAIR = group_of(NODE, 2)


def test_the_estimate_by_hand() -> None:
    """A ring of two: 14 us and two steps of 1.9, 4 MiB at 0.92 of 360 GB/s."""
    found = {w.protocol.name: w for w in ways("all_reduce", PAIR, 4 << 20)}
    times = {p: estimate_s("all_reduce", w, PAIR, 4 << 20) for p, w in found.items()}
    assert times["LL128"] == pytest.approx(17.8e-6 + (4 << 20) / (0.92 * 360e9))
    assert times["Simple"] == pytest.approx(15.2e-6 + (4 << 20) / 360e9)
    assert times["LL"] == pytest.approx(7.8e-6 + (4 << 20) / 141e9)


@pytest.mark.parametrize(
    ("operation", "nbytes", "protocol"),
    [
        ("all_gather", 4 << 20, "Simple"),
        ("all_reduce", 4 << 20, "Simple"),
        ("all_reduce", 1 << 20, "LL"),
        ("all_gather", 1 << 20, "LL"),
        ("all_reduce", 64 << 20, "Simple"),
    ],
)
def test_it_chooses_what_two_h200s_were_seen_to_run(
    operation: str, nbytes: int, protocol: str
) -> None:
    """overlap-2.jsonl: the time of NCCL's own choice is that of this protocol by itself."""
    assert chosen(operation, PAIR, nbytes, H200).protocol.name == protocol


def test_the_choice_is_not_always_the_fastest() -> None:
    found = ways("all_gather", PAIR, 4 << 20, H200)
    taken = chosen("all_gather", PAIR, 4 << 20, H200)
    assert min(w.time_s for w in found) < 0.9 * taken.time_s


def test_where_protocols_were_not_measured_the_fastest_is_taken() -> None:
    for nbytes in (1 << 12, 1 << 20, 1 << 26):
        taken = chosen("all_gather", PAIR, nbytes, NCCL)
        assert taken.time_s == min(w.time_s for w in ways("all_gather", PAIR, nbytes, NCCL))


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
@pytest.mark.parametrize("ranks", [2, 8, 64, 1024])
def test_estimates_are_finite_and_grow(operation: str, ranks: int) -> None:
    group = group_of(parse_target(f"{max(ranks, 8)}xh100"), ranks)
    for w in ways(operation, group, 1e6):
        small, large = (estimate_s(operation, w, group, s) for s in (1e6, 1e8))
        assert 0 < small < large < inf
    rails = group_of(parse_target("1024xh100"), range(0, 1024, 8))
    assert all(estimate_s(operation, w, rails, 1e6) < inf for w in ways(operation, rails, 1e6))


def test_other_libraries_ways_have_no_estimate() -> None:
    other = way("torus", DMA, (1, 0), (0.0, 1e-6, 0.0), 1.0, 1e9)
    assert estimate_s("all_gather", other, PAIR, 1e6) == inf


def test_eight_ranks_that_were_not_fitted() -> None:
    """16 MiB among eight H200s without in-switch additions: a known 0.12 ms."""
    taken = chosen("all_reduce", group_of(NODE, 8), 16 << 20, H200)
    assert taken.time_s == pytest.approx(0.12e-3, rel=0.12)
