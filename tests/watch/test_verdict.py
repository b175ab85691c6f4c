"""What the last seconds mean: devices at work as they behave, each rule at its edge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watch_samples import decoding, device, idle, input_bound, samples, training

from gpuscope.document.text import render
from gpuscope.watch import thresholds as at
from gpuscope.watch.types import Activity
from gpuscope.watch.verdict import HEADS, judge, judge_window
from gpuscope.watch.window import Window

FULL = Window(
    n=11,
    seconds=10.0,
    busy=0.99,
    swing=0.01,
    sm=0.9,
    occupancy=0.4,
    tensor=0.6,
    memory_bandwidth=0.4,
    power_w=630.0,
    power_share=0.9,
    power_held=0.0,
    heat_held=0.0,
    temperature_c=60.0,
    pcie_rx_share=0.01,
    pcie_tx_share=0.0,
    pcie_rx_bytes_per_s=1e8,
    pcie_tx_bytes_per_s=1e7,
    nvlink_bytes_per_s=0.0,
    memory_used_bytes=2**36,
    n_processes=1,
    host_cpu=0.1,
)


def kind(**changes: object) -> str:
    return judge_window(replace(FULL, **changes)).kind


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (training, "compute_bound"),
        (input_bound, "waiting_for_input"),
        (decoding, "host_bound"),
        (idle, "idle"),
    ],
)
def test_devices_at_work_are_recognised(make, expected: str) -> None:
    assert judge(samples(make), 0).kind == expected


def test_the_sentence_rests_on_figures() -> None:
    said = judge(samples(input_bound, 12), 0).sentence
    assert said.startswith("Waiting for input: utilisation 27 % in bursts, PCIe busy (21.0 GB/s")
    assert "power low (31 % of its limit)" in said
    assert render(said, "zh").startswith(
        "等待输入数据：利用率 27 %（时高时低）、PCIe 繁忙（流入 21.0 GB/s）"
    )


def test_idle_says_who_holds_memory() -> None:
    said = judge(samples(idle), 0).sentence
    assert (
        said == "Idle: no kernel for 10 s, 1 process holds 100.0 GiB, power low (11 % of its limit)"
    )


def test_memory_bound() -> None:
    assert kind(tensor=0.05, memory_bandwidth=0.8) == "memory_bound"
    # Both busy: the one nearer its own ceiling is named.
    assert kind(tensor=0.5, memory_bandwidth=0.9) == "memory_bound"


def test_heat_comes_before_everything_that_it_causes() -> None:
    assert kind(heat_held=0.2) == "thermally_limited"
    assert kind(heat_held=0.2, power_held=1.0, power_share=1.0) == "thermally_limited"
    assert kind(heat_held=0.2, busy=0.0) == "idle"


def test_the_power_limit_holds_only_at_the_limit() -> None:
    assert kind(power_held=0.9, power_share=0.99) == "power_limited"
    assert kind(power_held=0.9, power_share=0.6) == "compute_bound"
    assert kind(power_held=0.1, power_share=0.99) == "compute_bound"


def test_links_that_carry_much_while_units_rest() -> None:
    busy = {"tensor": 0.2, "memory_bandwidth": 0.2, "power_share": 0.6}
    assert kind(**busy, nvlink_bytes_per_s=2e11) == "communication_bound"
    assert kind(**busy, nvlink_bytes_per_s=2e10) != "communication_bound"
    assert kind(**busy, nvlink_bytes_per_s=2e10, nvlink_share=0.2) == "communication_bound"
    assert kind(**busy, nvlink_bytes_per_s=4e10, nvlink_share=0.04) != "communication_bound"
    assert kind(tensor=0.6, nvlink_bytes_per_s=2e11) == "compute_bound"  # hidden under work


def test_a_collective_that_waits() -> None:
    """Utilisation 100 %, nothing moves, power low: the picture of a rank that waits."""
    waiting = {
        "busy": 1.0,
        "swing": 0.0,
        "sm": 0.12,
        "tensor": 0.0,
        "memory_bandwidth": 0.01,
        "power_share": 0.2,
        "nvlink_bytes_per_s": 0.0,
    }
    found = judge_window(replace(FULL, **waiting, neighbours=7))
    assert found.kind == "communication_bound"
    assert "another rank" in found.sentence
    assert found.sure <= 0.5
    assert kind(**waiting, neighbours=0) == "host_bound"  # one device: small kernels
    decoding = {**waiting, "memory_bandwidth": 0.12}  # weights are read: something is done
    assert kind(**decoding, neighbours=7) == "host_bound"


def test_without_counters_power_decides() -> None:
    blind = {"sm": None, "tensor": None, "memory_bandwidth": None, "nvlink_bytes_per_s": None}
    assert kind(**blind) == "busy"
    low = judge_window(replace(FULL, **blind, power_share=0.3))
    assert low.kind == "busy"
    assert "little for their power" in low.sentence


def test_part_time_work() -> None:
    part = {"busy": 0.4, "swing": 0.1, "sm": 0.36, "power_share": 0.4}
    assert kind(**part) == "waiting_for_input"  # SMs full while it runs
    assert kind(**{**part, "sm": 0.06}) == "host_bound"  # few SMs while it runs
    blind = {**part, "sm": None, "tensor": None, "memory_bandwidth": None}
    assert kind(**blind) == "host_bound"
    assert kind(**blind, pcie_rx_share=0.4) == "waiting_for_input"
    assert kind(**blind, host_cpu=0.95) == "waiting_for_input"
    assert kind(**{**blind, "swing": 0.9}) == "waiting_for_input"


def test_nothing_read_is_unknown_not_idle() -> None:
    found = judge(samples(lambda n: device(0, Activity(), utilisation=None, power_w=None)), 0)
    assert (found.kind, found.sure) == ("unknown", 0.0)
    only_power = judge(samples(lambda n: device(0, Activity(), utilisation=None)), 0)
    assert only_power.kind == "unknown"
    assert judge([], 0).kind == "unknown"
    assert judge(samples(training), 5).kind == "unknown"  # no such device


def test_few_samples_are_less_sure() -> None:
    many, few = judge(samples(training), 0), judge(samples(training, 2), 0)
    assert few.kind == many.kind
    assert few.sure < many.sure


def test_only_the_last_seconds_count() -> None:
    work, rest = samples(training, 30), samples(idle, 30)
    later = [replace(s, unix_s=s.unix_s + 30) for s in rest]
    assert judge(work + later, 0).kind == "idle"
    assert judge((work + later)[:32], 0).kind != "idle"


def test_every_verdict_is_reached_and_said() -> None:
    reached = {
        kind(),
        kind(tensor=0.1, memory_bandwidth=0.7),
        kind(busy=0.0),
        kind(heat_held=1.0),
        kind(power_held=1.0, power_share=1.0),
        kind(busy=0.3, sm=0.29),
        kind(busy=0.3, sm=0.03),
        kind(tensor=0.1, memory_bandwidth=0.2, nvlink_bytes_per_s=1e11),
        kind(sm=None, tensor=None),
        kind(busy=None, power_share=None),
    }
    assert reached == set(HEADS)


share = st.none() | st.floats(0, 1)


@settings(deadline=None)
@given(
    st.builds(
        Window,
        n=st.integers(0, 20),
        seconds=st.floats(0, 10),
        busy=share,
        swing=st.none() | st.floats(0, 3),
        sm=share,
        occupancy=share,
        tensor=share,
        memory_bandwidth=share,
        power_share=share,
        power_held=share,
        heat_held=share,
        pcie_rx_share=share,
        nvlink_bytes_per_s=st.none() | st.floats(0, 1e12),
        nvlink_share=share,
        host_cpu=share,
        neighbours=st.integers(0, 7),
    )
)
def test_every_window_has_a_verdict_that_holds(w: Window) -> None:
    found = judge_window(w)
    assert 0 <= found.sure <= 1
    assert found.sentence.startswith(HEADS[found.kind])
    assert render(found.sentence, "zh").startswith(render(HEADS[found.kind], "zh"))
    assert "None" not in found.sentence
    if w.busy is not None and w.busy < at.IDLE:
        assert found.kind == "idle"
    if found.kind in ("compute_bound", "memory_bound"):
        assert w.busy is not None
        assert w.busy >= at.STEADY
