"""Half a minute of matrix products on all devices at once: clocks, power, heat, and the same
results from beginning to end.

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_sustained`). One product is
repeated with the same random operands, so each result must equal the first one bit for bit: a
library that runs the same kernel on the same device in one stream adds in the same order (NVIDIA,
cuBLAS documentation, "Results reproducibility"). Work on all devices at once loads power supply
and cooling as training does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuscope.doctor.probes.deep_devices import Json, answer, on_each, say
from gpuscope.doctor.probes.deep_products import allow
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.measurement.sensors import Sensor

LIMIT_S = 80.0
LOAD_S = 30.0
SIDE = 8192
BATCH_S = 0.25
READ_EVERY_S = 1.0


def dtype_for(accelerator: Accelerator) -> str:
    """The 16-bit format that the device's matrix unit has: bf16, else fp16."""
    import torch

    if accelerator.kind != "cuda":
        return "bf16"
    major = torch.cuda.get_device_properties(accelerator.index).major
    return "bf16" if major >= 8 or torch.version.hip else "fp16"


def load(
    multiply: Callable[[], Any], wait: Callable[[], None], *, seconds: float, flops: float
) -> Json:
    """Repeat a product for some seconds.

    Args:
        multiply: makes it, always of the same operands.
        wait: until the device is done.
        seconds: how long, about.
        flops: of one product.

    Returns:
        `windows`: pairs of seconds since the beginning (at the end of the window) and flop/s in
        it; `products` made, results `compared` with the first and how many `differed`.
    """
    import torch

    multiply()
    first = multiply().clone()
    wait()
    batch = 1
    windows: list[tuple[float, float]] = []
    made = compared = differed = 0
    began = last = time.perf_counter()
    while last - began < seconds:
        for _ in range(batch):
            out = multiply()
        wait()
        now = time.perf_counter()
        took = now - last
        windows.append((now - began, batch * flops / took))
        differed += not torch.equal(out, first)
        compared += 1
        made += batch
        batch = max(1, int(batch * min(4.0, BATCH_S / max(took, 1e-9))))
        last = time.perf_counter()
    return {"windows": windows, "products": made, "compared": compared, "differed": differed}


def heated(accelerator: Accelerator, seconds: float = LOAD_S, side: int = SIDE) -> Json:
    """Load one device."""
    import torch

    from gpuscope.measurement.bench.inputs import DTYPES, randn

    name = dtype_for(accelerator)
    stored = DTYPES[name]
    a, b = (randn(side, side, dtype=stored, device=accelerator.torch_name) for _ in range(2))
    out = torch.empty_like(a)
    found = load(
        lambda: torch.mm(a, b, out=out),
        accelerator.synchronize,
        seconds=seconds,
        flops=2.0 * side**3,
    )
    return {"dtype": name, "side": side, **found}


class Watcher:
    """Reads the sensors of all devices while they work, in a thread of its own.

    Args:
        sensors: by device; those without one are left out.
        every_s: between two readings.
    """

    def __init__(self, sensors: dict[int, Sensor], every_s: float = READ_EVERY_S) -> None:
        self._sensors, self._every_s = sensors, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.readings: dict[int, list[Json]] = {index: [] for index in sensors}

    def __enter__(self) -> Watcher:
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            for index, sensor in self._sensors.items():
                reading = sensor.read()
                self.readings[index].append(
                    {
                        "at_s": round(reading.time_s - self._began, 3),
                        "power_w": reading.power_w,
                        "sm_clock_hz": reading.sm_clock_hz,
                        "temperature_c": reading.temperature_c,
                        "reasons": None
                        if reading.throttle_reasons is None
                        else list(reading.throttle_reasons),
                        "power_limit_w": reading.power_limit_w,
                    }
                )


def thinned(windows: Sequence[Sequence[float]], every_s: float = 1.0) -> list[list[float]]:
    """Mean rates of about a second each: what is kept of the windows.

    Args:
        windows: pairs of seconds and flop/s, in order.
        every_s: length of the new ones.
    """
    found: list[list[float]] = []
    sums, begin, last = 0.0, 0.0, 0.0
    for at_s, rate in windows:
        sums += rate * (at_s - last)
        last = at_s
        if at_s - begin >= every_s:
            found.append([round(at_s, 3), sums / (at_s - begin)])
            sums, begin = 0.0, at_s
    return found


def sustained(accelerators: list[Accelerator]) -> Json:
    """Load every device at the same time."""
    from gpuscope.measurement.sensors import open_sensor

    if not accelerators:
        return {}
    say(Text("matrix products for {seconds} s", seconds=f"{LOAD_S:.0f}"))
    allow("")
    opened = {each.index: open_sensor(each.index) for each in accelerators}
    sensors = {index: sensor for index, sensor in opened.items() if sensor is not None}
    with Watcher(sensors) as watcher:
        rows = on_each(accelerators, heated)
    for row in rows:
        row["readings"] = watcher.readings.get(row["index"])
        if "windows" in row:
            row["windows"] = thinned(row["windows"])
    return {"devices": rows, "load_s": LOAD_S}


if __name__ == "__main__":
    answer(sustained, limit_s=LIMIT_S)
