"""Power of a step and the clock that the limit leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost import power
from gpuscope.cost.power import (
    LOWEST_CLOCK,
    PowerModel,
    clocks_together,
    limit_power,
    power_model,
    steady_state,
)
from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.document.quantities import Hertz, Watts
from gpuscope.document.text import Text
from gpuscope.hardware import Device, calibration_for, device
from gpuscope.program.types import Op, Program

H200 = device("h200")
CONSTANTS = calibration_for(H200)
PEAK = H200.peak_flops_per_s("bfloat16")


def product(time_s: float = 1e-3, of_peak: float = 0.8, **fields: object) -> Kernel:
    """A dense bf16 product that only its arithmetic limits."""
    kernel = Kernel(
        "gemm",
        "matmul",
        0,
        time_s,
        time_s * 0.9,
        time_s * 1.1,
        flops=of_peak * PEAK * time_s,
        dtype="bfloat16",
        compute_s=time_s,
        limiter="tensor_core",
    )
    return replace(kernel, **fields)  # type: ignore[arg-type]


def stream(time_s: float = 1e-3, nbytes_per_s: float = 4.2e12) -> Kernel:
    """A bandwidth-bound kernel."""
    moved = nbytes_per_s * time_s
    return Kernel(
        "copy",
        "copy",
        0,
        time_s,
        time_s,
        time_s,
        read_bytes=moved / 2,
        written_bytes=moved / 2,
        least_bytes=moved,
        dtype="float32",
        compute_s=0.2 * time_s,
        memory_s=time_s,
    )


def step(*kernels: Kernel, host_s: float = 0.0, repeat: int = 1) -> CostedProgram:
    """A program of one operator."""
    op = Op(0, "aten::mm", repeat=repeat)
    host = HostCost(host_s / repeat, 0.0, 0.0)
    program = Program("p", (op,))
    return CostedProgram(program, H200.id, (CostedOp(op, kernels, host),), kernel_gap_s=0.0)


def model(on: Device = H200) -> PowerModel:
    found = power_model(on, CONSTANTS)
    assert found is not None
    return found


def kernels(costed: CostedProgram) -> tuple[Kernel, ...]:
    return costed.ops[0].kernels


def busy_s(costed: CostedProgram) -> float:
    return sum(k.duration_s for k in kernels(costed))


def test_below_the_limit_nothing_changes() -> None:
    waiting = step(product(), host_s=4e-3)
    assert limit_power(waiting, H200, CONSTANTS) is waiting


def test_a_memory_bound_step_keeps_its_time() -> None:
    copies = step(stream(), stream())
    assert limit_power(copies, H200, CONSTANTS) is copies
    below = limit_power(copies, H200.replace(tdp_w=450.0), CONSTANTS)
    assert [k.duration_s for k in kernels(below)] == [k.duration_s for k in kernels(copies)]


def test_dense_products_run_at_the_clock_that_was_measured() -> None:
    # 8192^3 in bf16 on an H200: 805 TFLOP/s alone, 671 at 1490 MHz in steady state.
    seconds, flops = 1.366e-3, 2 * 8192.0**3
    alone = product(seconds, flops / (PEAK * seconds), read_bytes=1.03e9)
    limited = limit_power(step(alone), H200, CONSTANTS)
    assert flops / busy_s(limited) == pytest.approx(671e12, rel=0.03)
    assert steady_state(step(alone), model()).clock_share == pytest.approx(1490 / 1980, rel=0.03)
    assert limited.assumptions[-1].startswith("The power limit of 700 W lowers the clock to about")


@pytest.mark.parametrize("tdp_w", [400.0, 550.0, 700.0])
@pytest.mark.parametrize("mix", [(product(),), (product(), stream()), (product(2e-3),)])
def test_the_average_power_after_is_what_the_device_holds(
    tdp_w: float, mix: tuple[Kernel, ...]
) -> None:
    on = H200.replace(tdp_w=tdp_w)
    state = steady_state(step(*mix, repeat=3), model(on))
    assert state.average_w == pytest.approx(model(on).limit_w, rel=0.01)
    assert 0.97 * tdp_w < state.average_w <= tdp_w


def test_the_energy_of_a_limited_product_by_hand() -> None:
    alone = product()
    state = steady_state(step(alone), model())
    arithmetic_j, memory_j = model().work_j(alone)
    assert memory_j == 0.0
    slowed = state.clock_share / model().clock_share(alone)
    energy_j = arithmetic_j * slowed ** model().exponent
    power_w = model().idle_w + energy_j / (alone.duration_s / slowed)
    assert power_w == pytest.approx(model().limit_w, rel=0.01)


def test_a_higher_limit_is_never_slower() -> None:
    mixed = step(product(), stream(0.3e-3))
    times = [
        busy_s(limit_power(mixed, H200.replace(tdp_w=w), CONSTANTS))
        for w in (300.0, 400.0, 500.0, 600.0, 700.0, 900.0, 2000.0)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.3 * times[-1]
    assert times[-1] == busy_s(mixed)


def test_waiting_for_the_host_leaves_room() -> None:
    def stretched(host_s: float) -> float:
        return busy_s(limit_power(step(product(), host_s=host_s), H200, CONSTANTS))

    assert stretched(0.0) > stretched(1.2e-3) > stretched(2e-3) == pytest.approx(1e-3)


def test_a_cuda_graph_does_not_wait_for_the_host() -> None:
    graph = replace(step(product(), host_s=2e-3), graph=True)
    assert limit_power(graph, H200, CONSTANTS) is not graph


def test_only_the_arithmetic_is_stretched() -> None:
    late = product(1.1e-3, compute_s=1e-3)
    limited = kernels(limit_power(step(late), H200, CONSTANTS))[0]
    clock = steady_state(step(late), model()).clock_share
    arithmetic_s = 1e-3 * model().clock_share(late) / clock
    assert limited.duration_s == pytest.approx(arithmetic_s + 0.1e-3)
    assert limited.compute_s == pytest.approx(arithmetic_s)
    assert limited.high_s / limited.low_s == pytest.approx(late.high_s / late.low_s)


def test_copies_over_a_link_keep_their_time() -> None:
    upload = replace(stream(), lane="copy_h2d", compute_s=1e-3, memory_s=0.0)
    limited = limit_power(step(product(), upload), H200, CONSTANTS)
    assert kernels(limited)[1] == upload


def test_an_impossible_limit_ends_at_the_lowest_clock() -> None:
    on = H200.replace(tdp_w=50.0)
    assert steady_state(step(product()), model(on)).clock_share == pytest.approx(LOWEST_CLOCK)


def test_a_device_without_board_power_is_left_alone() -> None:
    unknown = device("apple-m1")
    assert unknown.tdp_w is None
    dense = step(product())
    assert limit_power(dense, unknown, calibration_for(unknown)) is dense


def test_float32_costs_more_than_bf16_per_flop() -> None:
    found = model()
    assert found.pj_per_flop("float8_e4m3fn") < found.pj_per_flop("bfloat16")
    assert found.pj_per_flop("bfloat16") < found.pj_per_flop("tf32") < found.pj_per_flop("float32")


def test_float32_on_matrix_units_costs_what_their_rate_says() -> None:
    """CDNA2's matrix units double the vector rate: half the energy a FLOP at the same power."""
    mi210 = device("mi210")
    found = power_model(mi210, CONSTANTS)
    assert found is not None
    at_peak_w = found.pj_per_flop("float32") * 1e-12 * mi210.peak_flops_per_s("float32")
    share = CONSTANTS.value("power.flop_share.tf32")
    assert at_peak_w == pytest.approx(share * 300, rel=1e-6)


def test_other_devices_scale_with_their_board_power() -> None:
    other = device("h100-pcie")
    found = power_model(other, calibration_for(other))
    assert found is not None
    assert other.tdp_w is not None
    assert found.idle_w / other.tdp_w == pytest.approx(model().idle_w / 700)
    assert found.pj_per_flop("bfloat16") * other.peak_flops_per_s("bfloat16") / other.tdp_w == (
        pytest.approx(model().pj_per_flop("bfloat16") * PEAK / 700)
    )


def test_a_what_if_limit_does_not_change_the_physics() -> None:
    lower = model(H200.replace(tdp_w=350.0))
    assert lower.pj_per_flop("bfloat16") == model().pj_per_flop("bfloat16")
    assert lower.idle_w == model().idle_w
    assert lower.limit_w == pytest.approx(model().limit_w / 2)


def test_a_busy_multiprocessor_draws_about_a_watt() -> None:
    """One block that spun for a millisecond drew 1.1 W above rest on an H200."""
    spinning = Kernel("spin", "other", 0, 1e-3, 1e-3, 1e-3, grid=2, waves=0.0)
    assert sum(model().work_j(spinning)) / 1e-3 / 2 == pytest.approx(1.1, rel=0.25)


def test_blocks_beyond_a_full_device_draw_no_more() -> None:
    def drawn(blocks: int) -> float:
        return sum(model().work_j(Kernel("k", "other", 0, 1e-3, 1e-3, 1e-3, grid=blocks)))

    units = H200.compute_units or 0
    assert drawn(units) == drawn(10 * units) == drawn(1)  # 1: the model does not say
    assert drawn(units // 2) == pytest.approx(drawn(units) / 2)


def test_a_kernel_that_is_over_at_once_draws_nothing() -> None:
    assert sum(model().work_j(Kernel("tiny", "pointwise", 0, 1e-6, 1e-6, 1e-6, grid=16))) == 0.0


def test_depthwise_convolutions_are_charged_for_issuing() -> None:
    """7x7 filters of 192 channels drew 306 W above rest on an H200, most of the time issuing."""
    kernel = Kernel(
        "conv_depthwise",
        "convolution",
        0,
        1e-3,
        1e-3,
        1e-3,
        flops=17e9,
        compute_s=0.99e-3,
        grid=10_000,
        dtype="bfloat16",
        read_bytes=1.1e8,
    )
    assert sum(model().work_j(kernel)) / 1e-3 == pytest.approx(306, rel=0.1)
    of_tiles = replace(kernel, tile=(128, 128, 64))
    assert sum(model().work_j(of_tiles)) < sum(model().work_j(kernel))


def test_clocks_of_several_ranks_are_one_sentence() -> None:
    def said(ghz: float) -> Text:
        return Text(
            "The power limit of {limit} lowers the clock to about {clock} in this step.",
            limit=Watts(700.0),
            clock=Hertz(ghz * 1e9),
        )

    assert clocks_together(["first", said(1.72), "last", said(1.68), said(1.7)]) == (
        "first",
        "The power limit of 700 W lowers the clock in this step, by rank, to about 1.68 GHz to "
        "1.72 GHz.",
        "last",
    )
    assert clocks_together([said(1.72), said(1.72)]) == (said(1.72),)


def test_a_row_is_a_kernel_or_where_they_were_corrected_apart_a_launch() -> None:
    one, other = (Kernel(name, "pointwise", 0, 1e-6, 1e-6, 1e-6) for name in ("one", "other"))
    lists = ((one, one, other), (other,))
    ops = [
        CostedOp(Op(n, "aten::mul", "", (), (), repeat=repeat), lists[at], HostCost(0.0, 0.0, 0.0))
        for n, (at, repeat) in enumerate([(0, 2), (1, 1), (0, 3)])
    ]
    together = CostedProgram(Program("p", tuple(o.op for o in ops)), "none", tuple(ops))
    kernels, of_row, often, launched = power._rows(together)
    assert kernels == [one, other]
    assert (of_row.tolist(), often.tolist()) == ([0, 1], [10.0, 6.0])
    assert launched.tolist() == [0, 0, 1, 1, 0, 0, 1]
    kernels, of_row, often, launched = power._rows(replace(together, apart=True))
    assert (of_row.tolist(), often.tolist()) == ([0, 0, 1, 1], [5.0, 5.0, 5.0, 1.0])
    assert launched.tolist() == [0, 1, 2, 3, 0, 1, 2]
