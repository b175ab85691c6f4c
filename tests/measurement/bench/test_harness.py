"""Timing of cases, on a pretend GPU."""

from __future__ import annotations

import pytest

from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.bench.harness import ANY_STATE, BenchCase, KernelTimer, is_lost, reason
from gpuscope.measurement.sensors import Reading, SensorInfo

FOREVER = float("inf")


def run(timer: KernelTimer, cases: list[BenchCase], **options):
    given = {"done": frozenset(), "deadline_s": FOREVER} | options
    return list(timer.run("test", cases, **given))


def case(call, size: int = 1, **options) -> BenchCase:
    return BenchCase("family", {"size": size}, call, **options)


def test_points_have_medians_kernels_and_limits(gpu, call) -> None:
    timer = KernelTimer(gpu, gpu.catalogue_device())
    hot, cold = run(timer, [case(call, bytes=48e6, repetitions=5)])
    assert (hot.state, cold.state) == ("hot", "cold")
    # repetitions 1 to 5: the first hot one is not counted; a kernel takes 10 us + 1 us each
    assert hot.n == cold.n == 5
    assert hot.median_s == pytest.approx(13e-6)
    assert hot.min_s == pytest.approx(11e-6)
    assert hot.p90_s == pytest.approx(15e-6)
    assert cold.median_s == pytest.approx(12e-6)
    assert hot.kernel == "pretend"
    assert hot.kernels[0].grid == "2x1x1"
    assert (cold.bound, cold.bound_s) == ("memory", pytest.approx(10e-6))
    assert cold.fraction == pytest.approx(10 / 12)
    assert cold.bytes_per_s == pytest.approx(4e12)


def test_equal_cases_are_measured_once_and_done_ones_not_at_all(gpu, call) -> None:
    timer = KernelTimer(gpu)
    assert len(run(timer, [case(call), case(call), case(call, 2)])) == 4
    key = ("test", "family", '{"size":1}')
    assert [p.state for p in run(timer, [case(call)], done=frozenset({(*key, "hot")}))] == ["cold"]
    assert run(timer, [case(call)], done=frozenset({(*key, ANY_STATE)})) == []


def test_a_case_that_fails_is_noted_and_does_not_disturb_the_next(gpu, call) -> None:
    def fails(device: str):
        calls = []

        def later() -> None:
            calls.append(1)
            if len(calls) > 4:
                raise RuntimeError("the second state is too much\nand a long explanation")

        return later

    timer = KernelTimer(gpu)
    points = run(timer, [BenchCase("bad", {}, fails, ("hot",), 6), case(call, repetitions=3)])
    assert [p.family for p in points] == ["family", "family"]
    assert points[0].n == 3
    (failure,) = timer.failures
    assert failure.family == "bad"
    assert failure.reason == "RuntimeError: the second state is too much"


def test_a_lost_device_ends_everything(gpu, call) -> None:
    def broken(device: str):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    timer = KernelTimer(gpu)
    with pytest.raises(RuntimeError, match="illegal"):
        run(timer, [BenchCase("bad", {}, broken), case(call)])
    assert timer.failures[0].lost


def test_interrupted_calls_keep_what_ran_before(gpu, call) -> None:
    def interrupt(device: str):
        raise KeyboardInterrupt

    timer = KernelTimer(gpu)
    found = []
    cases = [case(call), BenchCase("never", {}, interrupt), case(call, 2)]
    points = timer.run("test", cases, done=frozenset(), deadline_s=FOREVER)
    with pytest.raises(KeyboardInterrupt):
        found.extend(points)
    assert [p.params["size"] for p in found] == [1, 1]


def test_time_that_is_up_is_counted_not_hidden(gpu, call) -> None:
    timer = KernelTimer(gpu)
    assert run(timer, [case(call, n) for n in range(5)], deadline_s=0.0) == []
    assert timer.left == 5


def test_a_call_that_runs_nothing_on_the_device_is_a_failure(call) -> None:
    timer = KernelTimer(Accelerator("cpu"))
    assert run(timer, [case(call)]) == []
    assert [f.reason for f in timer.failures] == ["It ran nothing on the device."] * 2


def test_clocks_are_read_with_each_state(gpu, call) -> None:
    class Watched:
        info = SensorInfo("test", 0, "pretend")

        def read(self, *, processes: bool = False) -> Reading:
            return Reading(0.0, sm_clock_hz=1.5e9, throttle_reasons=("software power cap",))

        def close(self) -> None:
            """Nothing to close."""

    point, _ = run(KernelTimer(gpu, sensor=Watched()), [case(call)])
    assert point.sm_clock_hz == 1.5e9
    assert point.throttled == ("software power cap",)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("CUDA error: an illegal memory access was encountered", True),
        ("HIP error: unspecified launch failure", True),
        ("CUDA error: out of memory", False),
        ("CUDA error: no kernel image is available for execution on the device", False),
        ("expected scalar type Half", False),
    ],
)
def test_which_errors_cost_the_device(text: str, lost: bool) -> None:
    assert is_lost(RuntimeError(text)) is lost


def test_out_of_memory_says_what_was_asked_for() -> None:
    error = RuntimeError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15 GiB"
    )
    assert reason(error) == "Out of memory. Tried to allocate 2.00 GiB."
