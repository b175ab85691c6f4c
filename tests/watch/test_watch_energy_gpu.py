"""Exporter, health and energy on a real NVIDIA device: run by hand with -m gpu."""

from __future__ import annotations

import sys
import time
import urllib.request

import pytest

from gpuscope.measurement.sensors import open_sensor
from gpuscope.watch.energy_of import run
from gpuscope.watch.health import HealthReaders
from gpuscope.watch.sampler import Sampler, open_devices

pytestmark = pytest.mark.gpu

PRODUCTS = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + 4
while time.time() < end:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


@pytest.fixture(autouse=True)
def _device() -> None:
    sensor = open_sensor(0)
    if sensor is None or sensor.info.vendor != "nvidia":
        pytest.skip("needs an NVIDIA device and nvidia-ml-py")
    sensor.close()


def test_energy_of_matrix_products_lies_between_rest_and_limit() -> None:
    sensors = open_devices([0])
    try:
        rest = run([sys.executable, "-c", "import time; time.sleep(3)"], sensors=sensors)
        work = run([sys.executable, "-c", PRODUCTS], sensors=sensors)
        limit_w = sensors[0].read().power_limit_w
    finally:
        for sensor in sensors:
            sensor.close()
    assert (rest.exit_code, work.exit_code) == (0, 0)
    (idle,), (busy,) = rest.devices, work.devices
    print(f"\nrest {idle.average_w:.0f} W; products {busy.average_w:.0f} W, peak {busy.peak_w} W")
    print(f"{work.seconds:.2f} s, {busy.energy_j:.0f} J by {busy.method}, CO2 {work.co2_g:.3f} g")
    assert idle.method == busy.method == "counter"
    assert limit_w is not None
    assert 10 < idle.average_w < busy.average_w < limit_w * 1.05
    assert busy.peak_w > 2 * idle.average_w


def test_health_is_told() -> None:
    sensor = open_sensor(0)
    assert sensor is not None
    readers = HealthReaders()
    found = readers.read(sensor.info)
    readers.close()
    sensor.close()
    print(f"\n{found}")
    assert found.last_xid is None
    assert found.xid_errors == 0  # nothing has failed since we listen


def test_a_scrape_of_this_machine() -> None:
    pytest.importorskip("prometheus_client")
    from gpuscope.watch.exporter import Exporter

    with (
        Sampler(open_devices(), interval_s=0.5) as sampler,
        Exporter(":0", sampler, read_health=HealthReaders().read) as exporter,
    ):
        time.sleep(3)
        begin = time.perf_counter()
        with urllib.request.urlopen(exporter.address.url, timeout=5) as answer:
            text = answer.read().decode()
        print(f"\nscrape: {(time.perf_counter() - begin) * 1e3:.1f} ms, {len(text)} bytes")
    print("\n".join(line for line in text.splitlines() if line.startswith("gpuscope_")))
    for name in ("power_watts", "energy_joules_total", "memory_total_bytes", "verdict"):
        assert f"gpuscope_device_{name}{{" in text
