"""Power of steady loads, with a device that says what a test wants it to say."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("torch")

from gpuscope.measurement.bench import power
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import KernelTimer
from gpuscope.measurement.bench.power_loads import LOADS, QUICK_LOADS, Load
from gpuscope.measurement.sensors import Reading, SensorInfo


class Watched:
    """300 W, always."""

    info = SensorInfo("test", 0, "pretend")

    def __init__(self, **said) -> None:
        self.said = {"sm_clock_hz": 1.5e9, "throttle_reasons": ("software power cap",)} | said

    def read(self, *, processes: bool = False) -> Reading:
        now = time.perf_counter()
        return Reading(now, **{"energy_j": 300.0 * now, "power_w": 999.0} | self.said)

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def loads(monkeypatch):
    made = {"matmul_bf16": lambda device: Load(lambda: time.sleep(1e-3), flops=1e9, dtype="bf16")}
    monkeypatch.setattr(power, "LOADS", made)
    monkeypatch.setattr(power, "QUICK_LOADS", ("matmul_bf16",))
    monkeypatch.setattr(power, "WARM_S", 0.05)


def run(gpu, sensor, **options):
    timer = KernelTimer(gpu, gpu.catalogue_device(), sensor)
    context = Context(gpu, gpu.catalogue_device(), sensor, timer, quick=True, **options)
    return list(power.power(context)), context


def test_energy_comes_from_the_counter(gpu, loads) -> None:
    (idle, product), _ = run(gpu, Watched(power_limit_w=700.0, throttled_s={"power": 1.0}))
    assert idle.params == {"load": "idle_with_context", "duty": 1.0}
    assert idle.median_s is None
    assert idle.values["power_w"] == pytest.approx(300.0, rel=0.01)
    assert product.values["power_w"] == pytest.approx(300.0, rel=0.01)
    assert product.values["power_limit_w"] == 700.0
    assert product.values["throttled_power_s"] == 0.0
    assert product.sm_clock_hz == 1.5e9
    assert product.throttled == ("software power cap",)
    # calls of a millisecond and a little
    assert 1e-3 <= product.median_s < 3e-3
    assert product.values["energy_per_call_j"] == pytest.approx(300 * product.median_s, rel=0.05)
    assert product.flops_per_s == pytest.approx(1e9 / product.median_s)
    assert product.bound == "compute"


def test_a_device_without_a_counter_gives_its_power(gpu, loads, monkeypatch) -> None:
    monkeypatch.setattr(power, "WINDOW_S", 0.2)
    (_, product), _ = run(gpu, Watched(energy_j=None, power_w=250.0))
    assert product.values["power_w"] == 250.0
    assert "energy_j" not in product.values


def test_what_the_device_does_not_say_is_not_there(gpu, loads, monkeypatch) -> None:
    monkeypatch.setattr(power, "WINDOW_S", 0.1)
    silent = Watched(energy_j=None, power_w=None, sm_clock_hz=None, throttle_reasons=None)
    (_, product), _ = run(gpu, silent)
    assert product.values == {}
    assert product.sm_clock_hz is None
    assert product.throttled is None


def test_without_a_sensor_it_says_so(gpu, loads) -> None:
    points, context = run(gpu, None)
    assert points == []
    assert context.failures[0].reason.startswith("No sensor")


def test_time_that_is_up_is_counted(gpu, loads, monkeypatch) -> None:
    monkeypatch.setattr(power, "WINDOW_S", 0.1)
    points, context = run(gpu, Watched(), deadline_s=time.perf_counter())
    assert [p.params["load"] for p in points] == ["idle_with_context"]
    assert context.left == 1


def test_loads_run_and_say_their_work() -> None:
    assert set(QUICK_LOADS) <= set(LOADS)
    assert set(power.DUTY) <= set(LOADS)
    for name, make in LOADS.items():
        load = make("meta")
        load.call()
        assert (load.flops is None) != (load.bytes is None) or name == "tiny_kernels"
    assert LOADS["matmul_bf16"]("meta").flops == 2 * 8192**3
    assert LOADS["copy_hbm"]("meta").bytes == 2 * 4 * 2**29
