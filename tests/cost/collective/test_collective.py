"""Collectives against sums by hand, limits, and their place in a prediction."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.cost.collective.ways import (
    NCCL,
    PROTOCOLS,
    Group,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    gather_s,
    group_of,
    reduce_scatter_s,
    tuning_of,
)
from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Calibration, Distance, calibration_for, device, parse_target
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.program.types import Op, Program, TensorSpec
from gpuscope.timeline import simulate

GIB = 2**30
H200 = tuning_of(Constants(calibration_for(device("h200"))))
NODE = group_of(parse_target("8xh200"), 8)
EFFICIENCY, FABRIC = 0.8, 0.9
NO_NVLS = replace(NCCL, nvls=False)


def spec(nbytes: int, storage: int = 0) -> TensorSpec:
    return TensorSpec((nbytes // 2,), (1,), "bfloat16", "device", storage)


def run(op: Op, target: str = "8xh200") -> tuple[Kernel, ...]:
    cluster = parse_target(target)
    program = Program("collective", (op,))
    return cost_program(program, cluster.device, cluster=cluster, strict=True).ops[0].kernels


def test_all_reduce_by_hand() -> None:
    """2 x 7/8 of 1 GiB at 0.8 x 450 GB/s, and fourteen steps of NVLink under Simple."""
    simple = next(p for p in PROTOCOLS if p.name == "Simple")
    seconds = 2 * 7 / 8 * GIB / (EFFICIENCY * 450e9) + simple.base_s + 14 * simple.link_s
    assert all_reduce_s(NODE, GIB, NO_NVLS) == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize(("size_bytes", "measured_s"), [(GIB, 5.2e-3), (16 * 2**20, 0.12e-3)])
def test_all_reduce_is_near_what_eight_h200_take(size_bytes: int, measured_s: float) -> None:
    assert all_reduce_s(NODE, size_bytes, NO_NVLS) == pytest.approx(measured_s, rel=0.15)
    assert all_reduce_s(NODE, size_bytes, replace(H200, nvls=False)) == pytest.approx(
        measured_s, rel=0.15
    )


def test_the_switch_s_additions_are_taken_for_large_messages_of_many() -> None:
    for ranks, size_bytes, taken in ((8, GIB, True), (8, 2**14, False), (2, GIB, False)):
        group = group_of(parse_target("8xh200"), ranks)
        with_it = all_reduce_s(group, size_bytes)
        assert (with_it < all_reduce_s(group, size_bytes, NO_NVLS)) == taken
    old = group_of(parse_target("8xa100-sxm-80gb"), 8)
    assert all_reduce_s(old, GIB) == all_reduce_s(old, GIB, NO_NVLS)  # no such switch


def test_gather_moves_half_of_what_all_reduce_moves() -> None:
    both_s = all_reduce_s(NODE, 64 * GIB, NO_NVLS)
    assert 2 * gather_s(NODE, 64 * GIB) == pytest.approx(both_s, rel=1e-3)
    seconds = 7 / 8 * 64 * GIB / (EFFICIENCY * 450e9)
    assert gather_s(NODE, 64 * GIB) == pytest.approx(seconds, rel=1e-3)


def test_small_messages_take_their_latency() -> None:
    low = next(p for p in PROTOCOLS if p.name == "LL")
    assert all_reduce_s(NODE, 8) == pytest.approx(low.base_s + 14 * low.link_s, rel=1e-3)
    assert all_reduce_s(NODE, 8) < 20e-6


def test_the_fabric_is_the_narrowest_link() -> None:
    """Two nodes: a ring enters and leaves a node through all its eight ports."""
    two = group_of(parse_target("2x8xh200"), 16)
    assert two.domains == 2
    seconds = 2 * 15 / 16 * 64 * GIB / (EFFICIENCY * 450e9)  # 0.9 x 8 x 50 GB/s are as many
    assert all_reduce_s(two, 64 * GIB) == pytest.approx(seconds, rel=1e-2)


def test_a_tree_wins_for_small_messages_between_many_nodes() -> None:
    many = Group(1024, 8, 450e9, 50e9)
    ring_steps_s = min(p.base_s + 2 * 127 * p.fabric_s for p in PROTOCOLS)
    assert all_reduce_s(many, 1024) < ring_steps_s / 3


def test_all_to_all_leaves_each_device_by_its_own_port() -> None:
    two = group_of(parse_target("2x8xh200"), 16)
    seconds = 8 / 16 * 64 * GIB / (FABRIC * 50e9)
    assert all_to_all_s(two, 64 * GIB) == pytest.approx(seconds, rel=1e-2)


def test_a_mesh_of_links_gives_a_pair_one_link() -> None:
    cluster = parse_target("8xmi300x")
    whole, pair = group_of(cluster, 8), group_of(cluster, 2)
    assert pair.link_bytes_per_s == pytest.approx(whole.link_bytes_per_s / 7)


def test_without_scale_up_the_host_link_is_used() -> None:
    cluster = parse_target("8xrtx-4090")
    assert cluster.host_link is not None
    assert group_of(cluster, 8).link_bytes_per_s == cluster.host_link.bandwidth_bytes_per_s


@given(
    st.integers(2, 512), st.floats(1, 1e11), st.floats(1.01, 4.0), st.sampled_from([1, 2, 8, 72])
)
def test_time_grows_with_size_and_ranks(
    ranks: int, size_bytes: float, more: float, local: int
) -> None:
    group = Group(ranks, min(local, ranks), 450e9, 50e9)
    for time_s in (all_reduce_s, gather_s, broadcast_s, all_to_all_s):
        assert 0 < time_s(group, size_bytes) <= time_s(group, size_bytes * more) < inf
    if ranks % local == 0:
        larger = replace(group, ranks=2 * ranks)
        assert gather_s(group, size_bytes) <= gather_s(larger, size_bytes) * (1 + 1e-9)
        assert all_reduce_s(group, size_bytes) <= all_reduce_s(larger, size_bytes) * (1 + 1e-9)


def test_operators_of_both_interfaces_agree() -> None:
    whole, part = spec(GIB), spec(GIB // 8, 1)
    functional = Op(
        0,
        "_c10d_functional::all_gather_into_tensor",
        inputs=(part,),
        outputs=(whole,),
        args={"group_size": 8, "group_name": "0"},
    )
    base = Op(0, "c10d::_allgather_base_", inputs=(whole, part))
    scatter = Op(0, "c10d::_reduce_scatter_base_", inputs=(part, whole))
    times = [run(op)[0].duration_s for op in (functional, base, scatter)]
    assert times == pytest.approx(
        [gather_s(NODE, GIB, H200), gather_s(NODE, GIB, H200), reduce_scatter_s(NODE, GIB, H200)]
    )


def test_a_collective_runs_on_the_link() -> None:
    op = Op(0, "_c10d_functional::all_reduce", inputs=(spec(GIB),), outputs=(spec(GIB, 1),))
    (kernel,) = run(op)
    assert (kernel.kind, kernel.lane, kernel.limiter) == ("collective", "link", "link")
    assert kernel.origin == "estimated"
    assert kernel.low_s < kernel.duration_s < kernel.high_s
    assert kernel.note == "8 ranks in one scale-up domain"
    assert kernel.scope == "domain"


def test_one_rank_and_waiting_cost_nothing() -> None:
    tensor = spec(GIB)
    alone = Op(0, "_c10d_functional::all_reduce", inputs=(tensor,), outputs=(spec(GIB, 1),))
    assert run(alone, "h200") == ()
    wait = Op(0, "_c10d_functional::wait_tensor", inputs=(tensor,), outputs=(tensor,))
    assert run(wait) == ()


def test_the_recorded_group_counts_and_not_the_cluster() -> None:
    pair = Op(
        0,
        "_c10d_functional::all_gather_into_tensor",
        inputs=(spec(GIB // 2),),
        outputs=(spec(GIB, 1),),
        args={"group_size": 2},
    )
    group = group_of(parse_target("8xh200"), 2)
    assert run(pair)[0].duration_s == pytest.approx(gather_s(group, GIB, H200))
    assert run(pair, "h200")[0].note == "2 ranks in one scale-up domain"


def test_a_link_without_a_known_rate_is_an_error() -> None:
    cluster = parse_target("8xh200")
    assert cluster.scale_up is not None
    unknown = replace(cluster, scale_up=replace(cluster.scale_up, bandwidth_bytes_per_s=None))
    op = Op(0, "_c10d_functional::all_reduce", inputs=(spec(GIB),), outputs=(spec(GIB, 1),))
    with pytest.raises(UnsupportedError, match="8 ranks"):
        cost_program(Program("p", (op,)), device("h200"), cluster=unknown)


def test_compute_that_does_not_need_the_result_hides_it() -> None:
    """An all-reduce beside matrix products that read something else."""
    cluster = parse_target("8xh200")

    def square(storage: int) -> TensorSpec:
        return TensorSpec((8192, 8192), (8192, 1), "bfloat16", "device", storage)

    gradient = square(0)
    ops = [Op(0, "_c10d_functional::all_reduce", inputs=(gradient,), outputs=(square(1),))]
    ops += [
        Op(i, "aten::mm", inputs=(square(2), square(3)), outputs=(square(3 + i),))
        for i in range(1, 4)
    ]
    costed = cost_program(Program("p", tuple(ops)), cluster.device, cluster=cluster)
    total_s = sum(k.duration_s for item in costed.ops for k in item.kernels)
    link_s = costed.ops[0].kernels[0].duration_s
    assert simulate(costed).step_time_s == pytest.approx(total_s - link_s, rel=0.05)


def _measured(**values: float) -> Constants:
    entries = sorted(
        (f"collective.{name.replace('__', '.')}", CalibratedValue(v, "1", "calibrated", v, v))
        for name, v in values.items()
    )
    return Constants(Calibration("x", "x", Distance.SAME_DEVICE, "", tuple(entries)))


def test_measured_shares_and_latencies_replace_the_general_ones() -> None:
    tuning = tuning_of(
        _measured(
            LL__base_s=5e-6,
            LL__link_s=8e-7,
            all_reduce__efficiency_2=0.7,
            all_reduce__efficiency_8=1.0,
            nvls__enabled=0,
        )
    )
    assert all_reduce_s(NODE, 8, tuning) == pytest.approx(5e-6 + 14 * 8e-7, rel=1e-3)
    whole = 2 * 7 / 8 * 64 * GIB / 450e9
    assert all_reduce_s(NODE, 64 * GIB, tuning) == pytest.approx(whole, rel=1e-2)
    assert tuning.share("all_reduce", 4) == pytest.approx(0.85)
    assert tuning.share("all_reduce", 64) == pytest.approx(1.0)
    assert gather_s(NODE, 64 * GIB, tuning) == pytest.approx(gather_s(NODE, 64 * GIB), rel=1e-3)


def test_carried_collective_constants_say_nothing() -> None:
    carried = CalibratedValue(1e-3, "s", "estimated", 1e-3, 1e-3)
    constants = Constants(
        Calibration("x", "y", Distance.SAME_GENERATION, "", (("collective.LL.base_s", carried),))
    )
    assert tuning_of(constants).protocols == PROTOCOLS
