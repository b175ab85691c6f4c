"""More of something: monotone, one costing a machine, and the run's own point among them."""

from __future__ import annotations

from itertools import pairwise

from gpuscope import api
from gpuscope.hardware import Cluster, device
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.views.report.what_if_machines import Workload
from gpuscope.views.report.what_if_rates import (
    BANDWIDTHS,
    FEWER_BANDWIDTHS,
    FULL_OPERATORS,
    HOSTS,
    MOST_OPERATORS,
    UNITS,
    Machines,
    bandwidth_lines,
    machines_for,
    rate_explorer,
    scaled,
)

H200 = device("h200")
ADD = Op(
    0,
    "aten::add",
    inputs=(TensorSpec((1 << 28,), (1,), "bfloat16"),),
    outputs=(TensorSpec((1 << 28,), (1,), "bfloat16"),),
)
STEP = Program("adds", (ADD,))
MACHINES = Machines(Workload(STEP, Cluster.of(H200)))


def test_nothing_changed_is_the_device_itself() -> None:
    assert scaled(H200, 1.0, 1.0) is H200
    half = scaled(H200, 2.0, 0.5)
    assert half.compute_units == 66
    assert half.memory_bandwidth_bytes_per_s == 9.6e12
    assert half.peak_flops_per_s("bfloat16") == H200.peak_flops_per_s("bfloat16") / 2


def test_every_combination_has_a_value_and_more_bandwidth_is_faster() -> None:
    found = rate_explorer(MACHINES)
    times = found.outputs[0].values
    assert len(times) == len(UNITS) * len(HOSTS) * len(BANDWIDTHS)
    assert [s.key for s in found.sliders][-1] == found.x == "bandwidth"
    at = (UNITS.index(1.0) * len(HOSTS) + HOSTS.index(1.0)) * len(BANDWIDTHS)
    row = times[at : at + len(BANDWIDTHS)]
    # The power limit may take a little of a faster memory back.
    assert all(b <= a * 1.04 for a, b in pairwise(row))  # type: ignore[operator]
    assert row[-1] < row[0] / 1.5  # type: ignore[operator]
    assert row[BANDWIDTHS.index(1.0)] == api.recost(STEP).step_time_s


def test_utilisation_over_bandwidth_is_a_share() -> None:
    (lines,) = bandwidth_lines(MACHINES, None, None)
    (used,) = lines.series  # type: ignore[union-attr]
    assert all(y is not None and 0 < y <= 1 for y in used.y)
    (both,) = bandwidth_lines(MACHINES, 1e12, 989.4e12)
    assert len(both.series) == 2  # type: ignore[union-attr]


def test_a_device_of_one_unit_has_no_other_counts() -> None:
    one = device("google-tpu-v5e")
    machines = machines_for(Workload(STEP, Cluster.of(one)))
    assert machines is not None
    found = rate_explorer(machines)
    assert len(found.sliders[0].values) == (1 if (one.compute_units or 1) == 1 else len(UNITS))


def test_long_programs_get_fewer_points() -> None:
    def of(count: int) -> Machines | None:
        return machines_for(Workload(Program("adds", (ADD,) * count), Cluster.of(H200)))

    assert of(MOST_OPERATORS + 1) is None
    few, full = of(FULL_OPERATORS + 1), of(FULL_OPERATORS)
    assert few is not None
    assert full is not None
    assert few.bandwidths == FEWER_BANDWIDTHS
    assert full.bandwidths == BANDWIDTHS
    assert len(few.units) < len(full.units)
