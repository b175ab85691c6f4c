"""Bandwidth of each device's memory and of its link to the host.

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_copies`). Copies inside a device
run on all devices at once, they do not meet; copies to and from the host run on one device after
the other, and then on all at once, since there they share the host's memory and perhaps a switch.
The copies are those of `gpuscope bench`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuscope.doctor.probes.deep_devices import Json, answer, free_bytes, on_each, once_s, one, say
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator

LIMIT_S = 80.0
INSIDE_BYTES, HOST_BYTES = 1 << 30, 1 << 28
HOST_KINDS = ("h2d_pinned", "d2h_pinned", "both_pinned")
"""Both: as many bytes each way at the same time; the rate counts one way."""


def inside(accelerator: Accelerator, size_bytes: int = INSIDE_BYTES) -> Json:
    """Bytes read and written each second by a copy within the device's memory."""
    from gpuscope.measurement.bench.transfers import case

    free = free_bytes(accelerator)
    size = size_bytes if free is None else min(size_bytes, max(free // 4, 1 << 20))
    call = case("d2d", size).make(accelerator.torch_name)
    seconds = once_s(call, accelerator.synchronize)
    return {"inside": {"bytes": size, "seconds": seconds, "bytes_per_s": 2.0 * size / seconds}}


def to_host(accelerator: Accelerator, size_bytes: int = HOST_BYTES) -> Json:
    """Bytes each second, one way, of copies from and to pinned host memory; the link's state."""
    from gpuscope.measurement.bench.transfers import case
    from gpuscope.measurement.sensors import open_sensor

    found: Json = {}
    for kind in HOST_KINDS:
        call = case(kind, size_bytes).make(accelerator.torch_name)
        seconds = once_s(call, accelerator.synchronize)
        found[kind] = {"bytes": size_bytes, "seconds": seconds, "bytes_per_s": size_bytes / seconds}
    sensor = open_sensor(accelerator.index)
    if sensor is not None:  # the link is awake now: idle ones slow down to save power
        reading = sensor.read()
        found["pcie_generation"] = reading.pcie_generation
        found["pcie_width"] = reading.pcie_width
        sensor.close()
    return found


def together(accelerator: Accelerator, size_bytes: int = HOST_BYTES) -> Json:
    """Rate of copies to the device for half a second, while the others do the same."""
    from gpuscope.measurement.bench.transfers import case

    call = case("h2d_pinned", size_bytes).make(accelerator.torch_name)
    call()
    accelerator.synchronize()
    began, calls = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        call()
        accelerator.synchronize()
        calls += 1
    return {"together_bytes_per_s": calls * size_bytes / (time.perf_counter() - began)}


def copies(accelerators: list[Accelerator]) -> Json:
    """Measure every device."""
    say(Text("copies within device memory"))
    rows = {row["index"]: row for row in on_each(accelerators, inside)}
    for each in accelerators:
        say(Text("copies between the host and {device}", device=each.torch_name))
        if "error" not in rows[each.index]:
            rows[each.index] |= one(each, to_host)
    working = [each for each in accelerators if "error" not in rows[each.index]]
    if len(working) > 1:
        say(Text("copies from the host to all devices at once"))
        for row in on_each(working, together):
            rows[row["index"]] |= row
    return {"devices": list(rows.values())}


if __name__ == "__main__":
    answer(copies, limit_s=LIMIT_S)
