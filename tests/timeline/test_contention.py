"""Tasks that run side by side slow each other; nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_programs import US, call, kernel, ranked, talk

from gpuscope.cost.types import Kernel
from gpuscope.hardware import device
from gpuscope.program.types import ProcessGroup
from gpuscope.timeline.contention import DeviceOverlap, contended_s, rates
from gpuscope.timeline.schedule import build_schedule
from gpuscope.timeline.simulate import simulate
from gpuscope.timeline.simulate_ranks import simulate_ranks
from gpuscope.timeline.walk import walk_steps

GROUPS = (ProcessGroup("0", "dp", (0, 1)), ProcessGroup("1", "tp", (0, 1)))


@dataclass(frozen=True)
class Fixed:
    """The same factors for everything."""

    kernel: float = 1.0
    collective: float = 1.0
    link: float = 1.0
    room: float = 0.0

    def of_kernel(self, kernel: Kernel, collective: Kernel) -> float:
        return self.kernel

    def of_collective(self, collective: Kernel, kernel: Kernel) -> float:
        return self.collective

    def of_collectives(self, collective: Kernel, others: Sequence[Kernel]) -> float:
        return 1 + (self.link - 1) * len(others)

    def room_s(self, kernel: Kernel, collective: Kernel) -> float:
        return self.room * kernel.duration_s


def one(*ops):
    return ranked(ops, 0, GROUPS, 2, launch_latency_s=0.0, kernel_gap_s=0.0)


FREE = {"before_us": 0.0, "launch_us": 0.0, "after_us": 0.0}


def run(overlap, *ops):
    return simulate(one(*ops), steps=1, overlap=overlap)


def durations(simulation):
    events, names = simulation.timeline.events, simulation.timeline.names
    return {
        names[events.name[i]]: int(events.duration_ns[i]) / 1000
        for i in np.flatnonzero(events.kind < 4).tolist()
    }


def test_a_covered_kernel_takes_its_factor_longer():
    s = run(Fixed(kernel=1.5), talk(1000, **FREE), call(kernel(100, name="k"), **FREE))
    assert durations(s)["k"] == pytest.approx(150)
    assert durations(s)["allreduce_"] == 1000


def test_a_kernel_that_outlasts_the_collective_is_slowed_for_that_time_only():
    # 60 us beside the collective do 40 us of work; the other 60 us are done alone.
    s = run(Fixed(kernel=1.5), talk(60, **FREE), call(kernel(100, name="k"), **FREE))
    assert durations(s)["k"] == pytest.approx(60 + 60)


def test_both_slow_each_other():
    s = run(
        Fixed(kernel=1.5, collective=2.0), talk(60, **FREE), call(kernel(200, name="k"), **FREE)
    )
    assert durations(s)["allreduce_"] == pytest.approx(120, rel=1e-3)
    assert durations(s)["k"] == pytest.approx(120 + (200 - 80), rel=1e-3)


def test_collectives_on_two_groups_share_the_link():
    s = run(Fixed(link=2.0), talk(100, stream=1, **FREE), talk(100, group=1, stream=2, **FREE))
    assert s.first_step_s == pytest.approx(200 * US, rel=1e-2)


def test_what_does_not_overlap_keeps_its_time_to_the_last_bit():
    ops = [call(kernel(33.3)), talk(17.7, waits=(0,)), call(kernel(12.1), waits=(1,))]
    plain, slow = simulate(one(*ops)), simulate(one(*ops), overlap=Fixed(3.0, 3.0, 3.0))
    assert slow.step_time_s == plain.step_time_s
    assert (slow.timeline.events.duration_ns == plain.timeline.events.duration_ns).all()


def test_without_communication_nothing_is_looked_at():
    ops = [call(kernel(20, stream=1), stream=1), call(kernel(20))]
    plain, slow = simulate(one(*ops)), simulate(one(*ops), overlap=Fixed(3.0, 3.0, 3.0))
    assert slow.step_time_s == plain.step_time_s


def test_waiting_for_another_rank_slows_nobody():
    programs = [
        ranked([talk(10, stream=1), call(kernel(100), **FREE)], 0, GROUPS, 2),
        ranked([call(before_us=400), talk(10, stream=1), call(kernel(100), **FREE)], 1, GROUPS, 2),
    ]
    slow = simulate_ranks(programs, [(0,), (1,)], steps=1, overlap=Fixed(kernel=2.0))
    events = slow.timeline.events
    names = slow.timeline.names
    lanes = [lane.rank for lane in slow.timeline.lanes]
    took = {
        lanes[events.lane[i]]: events.duration_ns[i] / 1000
        for i in np.flatnonzero(events.kind == 0).tolist()
        if names[events.name[i]] == "kernel_100us"
    }
    assert took[0] == pytest.approx(100)
    assert took[1] > 104


def test_what_goes_on_into_the_next_step_overlaps_its_begin():
    # The collective is issued last, from a stream of its own, and runs under the next step's work.
    ops = [call(kernel(300, name="k"), **FREE), talk(200, stream=1, waits=(0,), **FREE)]
    s = simulate(one(*ops), steps=3, overlap=Fixed(kernel=1.5))
    assert durations(s)["k"] == pytest.approx(200 + (300 - 200 / 1.5), rel=1e-2)


@settings(max_examples=60, deadline=None)
@given(
    spans=st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 50), st.floats(1, 3)), max_size=6),
    begin=st.floats(-20, 120),
    work=st.floats(0.1, 80),
)
def test_work_is_conserved(spans, begin, work):
    start = np.array([s for s, _, _ in spans], float)
    end = np.array([s + d for s, d, _ in spans], float)
    factor = np.array([f for _, _, f in spans], float)
    took = float(rates(start, end, factor).stretched_s(np.array([begin]), np.array([work]))[0])
    most = max([1.0, *factor.tolist()])
    assert work - 1e-9 <= took <= work * most + 1e-9
    grid = np.linspace(begin, begin + took, 20001)
    middle = (grid[1:] + grid[:-1]) / 2
    rate = np.ones(len(middle))
    for low, high, value in zip(start, end, factor, strict=True):
        inside = (middle >= low) & (middle < high)
        rate[inside] = np.minimum(rate[inside], 1 / value)
    assert rate.sum() * took / 20000 == pytest.approx(work, rel=2e-3)


@settings(max_examples=30, deadline=None)
@given(
    us=st.lists(st.floats(1, 200), min_size=3, max_size=3),
    factor=st.floats(1, 3),
    link=st.floats(1, 2),
)
def test_no_task_gets_shorter(us, factor, link):
    ops = [
        talk(us[0], stream=1),
        talk(us[1], group=1, stream=2),
        call(kernel(us[2])),
        call(kernel(5), waits=(0, 1)),
    ]
    schedule = build_schedule(one(*ops))
    walk = walk_steps(schedule, 0.0)
    after = contended_s(schedule, walk, schedule.duration_s, Fixed(factor, factor, link))
    assert (after >= schedule.duration_s).all()
    if factor == 1 and link == 1:
        assert (after == schedule.duration_s).all()


def test_the_factors_of_a_device():
    overlap = DeviceOverlap.of(device("h200"))
    beside = Kernel(
        "collective_all_reduce",
        "collective",
        0,
        1e-3,
        1e-3,
        1e-3,
        lane="link",
        units=24,
        sent_bytes=3e8,
        moving_s=0.9e-3,
        scope="domain",
    )
    product = Kernel("gemm", "matmul", 0, 1e-3, 1e-3, 1e-3, limiter="tensor_core")
    assert 1.1 < overlap.of_kernel(product, beside) < 2
    assert overlap.of_collective(beside, product) > 1
    # 3e8 bytes in 0.9 ms are 0.74 of 450 GB/s, more than 0.67: both fill the link.
    assert overlap.of_collectives(beside, [beside]) == pytest.approx(1 + 0.9)
    far = Kernel(
        "collective_all_reduce",
        "collective",
        0,
        1e-3,
        1e-3,
        1e-3,
        lane="link",
        units=24,
        sent_bytes=3e8,
        moving_s=0.9e-3,
        scope="fabric",
    )
    assert overlap.of_collectives(beside, [far]) == 1


def test_a_collective_waits_for_room_beside_a_kernel_that_fills_the_device():
    # The kernel begins at once; the collective could after 20 us, and finds room at 90 of 100 us.
    first = call(kernel(20, stream=1, name="first"), stream=1, **FREE)
    ops = [first, talk(50, stream=1, **FREE), call(kernel(100, name="k"), **FREE)]
    plain, held = run(Fixed(), *ops), run(Fixed(room=0.9), *ops)
    begins = {}
    for name, simulation in (("plain", plain), ("held", held)):
        events, names = simulation.timeline.events, simulation.timeline.names
        at = [i for i in range(len(events)) if names[events.name[i]] == "allreduce_"]
        begins[name] = int(events.start_ns[at[0]])
        assert events.duration_ns[at[0]] == 50_000
    assert begins["held"] - begins["plain"] == 70_000
    assert held.first_step_s == pytest.approx(140 * US)


def test_a_collective_beside_nothing_is_not_held():
    ops = [call(kernel(20), **FREE), talk(50, waits=(0,), **FREE)]
    assert run(Fixed(room=0.9), *ops).first_step_s == run(Fixed(), *ops).first_step_s


def test_room_in_the_last_wave():
    overlap = DeviceOverlap.of(device("h200"))
    beside = Kernel(
        "collective_all_gather", "collective", 0, 1e-4, 1e-4, 1e-4, lane="link", units=16
    )
    product = Kernel("gemm", "matmul", 0, 1e-3, 1e-3, 1e-3, limiter="tensor_core", waves=12.6)
    assert overlap.room_s(product, beside) == pytest.approx(1e-3 * 12 / 13)


def test_many_small_changes_are_a_large_one() -> None:
    """Of a long step each task's share is next to nothing; together they may be a tenth."""
    from gpuscope.timeline.contention import Beside, _settled

    before = Beside(np.full(1000, 1e-3), np.zeros(1000))
    after = Beside(np.full(1000, 1.1e-3), np.zeros(1000))
    little = Beside(before.duration_s * (1 + 1e-4), before.held_s)
    walk = SimpleNamespace(period_s=1.0)
    assert not _settled(walk, before, after)
    assert _settled(walk, before, little)
