"""The host bench runs on any machine; its figures are of calls that really ran."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch

from gpuscope.measurement.bench import (
    host_calls,
    host_compiled,
    host_dtensor,
    host_passes,
    host_python,
    host_recurrent,
    host_waits,
)
from gpuscope.measurement.bench.host import parts, point
from gpuscope.measurement.bench.host_program_models import NAMES, programs
from gpuscope.measurement.bench.host_programs import measure_programs
from gpuscope.measurement.bench.host_timing import HostSample, HostTimer
from gpuscope.measurement.bench.launch import latencies
from gpuscope.measurement.calibrate.host_compiled_constants import PARAMETERS


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_call_of_known_length() -> None:
    timer = HostTimer("cpu", batches=3)
    timer.calls("sleep", "ms", "2", lambda: time.sleep(2e-3), count=2)
    timer.once("sleep", "ms", "4", lambda: lambda: time.sleep(4e-3), per=2)
    short, halved = timer.samples
    assert all(2e-3 <= s < 50e-3 for s in short.seconds)
    assert all(2e-3 <= s < 50e-3 for s in halved.seconds)
    assert len(short.seconds) == len(halved.seconds) == 3


def test_rounds_of_one_call_are_one_sample() -> None:
    timer = HostTimer("cpu", batches=2)
    for _ in range(3):
        timer.calls("op", "pass", "x", lambda: None, count=1)
    assert len(timer.samples) == 1
    assert len(timer.samples[0].seconds) == 6


def test_a_call_that_fails_is_told_and_the_rest_goes_on() -> None:
    def broken() -> None:
        raise RuntimeError("not on this device")

    timer = HostTimer("cpu", batches=1)
    timer.calls("op", "broken", "x", broken)
    timer.calls("op", "fine", "x", lambda: None)
    assert [s.name for s in timer.samples] == ["fine"]
    assert timer.failures == ["op,broken,x: RuntimeError: not on this device"]


def test_operators_run_in_both_modes() -> None:
    timer = HostTimer("cpu", batches=1)
    calls = host_calls.operators(host_calls.tensors("cpu", grad=True))
    for call in calls.values():
        call()
    host_calls.measure_factories(timer)
    assert not timer.failures
    assert {s.group for s in timer.samples} == {"op"}


@pytest.mark.parametrize("name", NAMES)
def test_every_program_trains(name: str) -> None:
    torch.manual_seed(0)
    model, forward = programs("cpu", (name,))[name]
    loss = forward(model.train())
    assert loss.shape == ()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert grads
    assert all(torch.isfinite(g).all() for g in grads)


def test_programs_have_a_time_in_every_mode() -> None:
    timer = HostTimer("cpu", batches=1)
    names = ("mlp8", "nested10")
    measure_programs(timer, 1, names)
    modes = {"no_grad", "autocast", "grad", "backward", "step", "zero", "whole"}
    found = {(s.name, s.variant) for s in timer.samples}
    assert found == {(name, mode) for name in names for mode in modes}, timer.failures
    by = {(s.name, s.variant): s.seconds[0] for s in timer.samples}
    assert by["mlp8", "whole"] > by["mlp8", "zero"]


def test_other_parts_run() -> None:
    timer = HostTimer("cpu", batches=1)
    host_python.measure_python(timer)
    host_waits.measure_waits(timer)
    host_waits.measure_allocation(timer)
    host_passes.measure_optimizers(timer, counts=(10,))
    assert not timer.failures
    assert {"python", "sync", "memory", "optimizer_step", "zero_grad"} <= {
        s.group for s in timer.samples
    }


def test_parts_name_the_families_that_they_make() -> None:
    families = [f for names, _ in parts(quick=True) for f in names]
    assert len(families) == len(set(families))


def test_counts_are_not_seconds() -> None:
    sample = HostSample("queue", "depth", "count", (1021.0, 1021.0), 1, "1")
    found = point("launch", sample)
    assert found.median_s is None
    assert found.values == {"count": 1021.0}


def test_latencies_and_gaps_by_hand() -> None:
    def launch(ts: float, number: int) -> dict[str, object]:
        return {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": ts,
            "dur": 2.0,
            "args": {"correlation": number},
        }

    def kernel(ts: float, number: int, name: str = "k") -> dict[str, object]:
        return {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "ts": ts,
            "dur": 3.0,
            "args": {"correlation": number},
        }

    events = [
        launch(0.0, 1),
        launch(10.0, 2),
        kernel(5.0, 1),
        kernel(12.0, 2),
        kernel(1.0, 9, "spin_kernel"),
    ]
    found = latencies(events)
    assert found["latency"] == pytest.approx([5e-6, 2e-6])
    assert found["gap"] == pytest.approx([4e-6])
    assert found["call"] == pytest.approx([2e-6, 2e-6])


@pytest.mark.gpu
def test_launches_on_a_gpu() -> None:
    from gpuscope.measurement.bench.launch import measure_latency, measure_queue

    timer = HostTimer("cuda", batches=3)
    measure_queue(timer)
    measure_latency(timer, count=40)
    assert not timer.failures
    families = {s.group for s in timer.samples}
    assert {"queue", "launch_latency", "launch_gap", "launch_call"} <= families


CALLS = ("add", "mm", "linear", "linear_backward")


def test_dtensors_cost_more_than_what_they_hold() -> None:
    timer = HostTimer("cpu", batches=3)
    host_dtensor.measure_dtensor(timer)
    assert not timer.failures
    found = {(s.name, s.variant): min(s.seconds) for s in timer.samples}
    assert set(found) == {(n, v) for n in CALLS for v in ("plain", "dtensor")}
    assert found["add", "dtensor"] > found["add", "plain"]
    assert not torch.distributed.is_initialized()


def test_compiled_functions_are_what_their_sizes_say() -> None:
    assert len(host_compiled.slices(5, "cpu")()) == 5
    assert host_compiled.products(3, "cpu")().shape == (64, 64)
    net = host_compiled.network(2, "cpu")
    assert len(list(net.parameters())) == 2 * PARAMETERS
    assert net(torch.randn(64, 64)).shape == ()


def test_without_a_gpu_nothing_is_compiled_and_no_library_launches() -> None:
    timer = HostTimer("cpu", batches=1)
    host_compiled.measure_compiled(timer)
    host_recurrent.measure_recurrent(timer)
    assert not timer.samples
    assert not timer.failures
