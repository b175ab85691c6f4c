"""What machine this is, and what may disturb its figures."""

from __future__ import annotations

import os
import platform
import re
from typing import TYPE_CHECKING, Any

from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text, joined
from gpuscope.measurement.accelerator import machine_facts
from gpuscope.measurement.sensors.types import HELD_BY_CHOICE

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.measurement.sensors import Reading, Sensor

BUSY_SHARE = 0.05
"""A device that is used more than this before the bench begins is somebody's."""


def facts(accelerator: Accelerator, sensor: Sensor | None) -> dict[str, str]:
    """Return what the figures depend on, by name; what is not known is left out."""
    import torch

    found = machine_facts(accelerator)
    found["host"] = platform.node()
    if sensor is not None:
        found["driver"] = sensor.info.driver
        found["uuid"] = sensor.info.uuid
        reading = sensor.read()
        found |= _sensor_facts(reading)
    if accelerator.kind == "cuda":
        found |= _properties(torch.cuda.get_device_properties(accelerator.index))
        cudnn: Any = torch.backends.cudnn
        if cudnn.is_available():
            found["cudnn"] = str(cudnn.version())
        for short, package in (("cublas", "nvidia-cublas"), ("nccl", "nvidia-nccl")):
            found[short] = _package(package)
        found["attention"] = ", ".join(
            name
            for name in ("flash", "mem_efficient", "cudnn", "math")
            if getattr(torch.backends.cuda, f"{name}_sdp_enabled", lambda: False)()
        )
    count = accelerator_count(accelerator)
    if count > 1:
        found["devices"] = str(count)
    return {name: text for name, text in found.items() if text}


def _sensor_facts(reading: Reading) -> dict[str, str]:
    found = {}
    if reading.power_limit_w is not None:
        found["power_limit_w"] = f"{reading.power_limit_w:.0f}"
    if reading.pcie_generation is not None and reading.pcie_width is not None:
        found["host_link"] = f"PCIe {reading.pcie_generation} x{reading.pcie_width}"
    if reading.memory_total_bytes is not None:
        found["memory_bytes"] = str(reading.memory_total_bytes)
    return found


def _properties(properties: Any) -> dict[str, str]:
    found = {
        "capability": f"{properties.major}.{properties.minor}",
        "compute_units": str(properties.multi_processor_count),
        "torch_memory_bytes": str(properties.total_memory),
    }
    cache = getattr(properties, "L2_cache_size", None)
    if cache:
        found["l2_bytes"] = str(cache)
    architecture = getattr(properties, "gcnArchName", "")
    if architecture:
        found["architecture"] = str(architecture)
    return found


def _package(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    for full in (name, f"{name}-cu13", f"{name}-cu12"):
        try:
            return version(full)
        except PackageNotFoundError:
            continue
    return ""


def accelerator_count(accelerator: Accelerator) -> int:
    """Return how many devices of its kind this process sees; 1 for a CPU."""
    import torch

    module = getattr(torch, accelerator.kind, None)
    counted = getattr(module, "device_count", None)
    return int(counted()) if accelerator.is_gpu and counted else 1


def notices(accelerator: Accelerator, sensor: Sensor | None) -> list[Text]:
    """Return what may disturb the figures; to be asked before the device is used."""
    found = _kinds(accelerator)
    if sensor is None:
        if accelerator.kind == "cuda":
            found.append(
                Text(
                    "No sensor: clocks, power and throttling are not available. "
                    'Type: pip install "gpuscope[nvidia]"'
                )
            )
        return found
    if sensor.info.slice:
        found.append(
            Text("This is a slice of a device (MIG): limits of the whole device are not compared.")
        )
    reading = sensor.read(processes=True)
    return found + _others(reading) + _held_down(reading)


def _kinds(accelerator: Accelerator) -> list[Text]:
    import torch

    module: Any = getattr(torch, accelerator.kind, None)
    count = accelerator_count(accelerator)
    if count < 2 or not hasattr(module, "get_device_name"):
        return []
    names = [str(module.get_device_name(n)) for n in range(count)]
    if len(set(names)) < 2:
        return []
    listed = ", ".join(f"{accelerator.kind}:{n} {name}" for n, name in enumerate(names))
    return [
        Text(
            "The devices differ ({listed}): this is a bench of {device}. Choose with --device.",
            listed=listed,
            device=accelerator.torch_name,
        )
    ]


def _others(reading: Reading) -> list[Text]:
    """Who else is on the device; numbers of processes differ inside a container."""
    others = [p for p in reading.processes or () if p.pid != os.getpid()]
    if others:
        named = ", ".join(f"{p.pid} {os.path.basename(p.name)}".strip() for p in others[:3])
        return [
            Text(
                "Another process is on the device ({named}): figures may be too slow.", named=named
            )
        ]
    if reading.utilisation is not None and reading.utilisation > BUSY_SHARE:
        return [
            Text(
                "The device was {busy} busy before the bench began: figures may be too slow.",
                busy=Percent(reading.utilisation),
            )
        ]
    return []


def _held_down(reading: Reading) -> list[Text]:
    slow = [r for r in reading.throttle_reasons or () if r not in HELD_BY_CHOICE]
    if not slow:
        return []
    return [
        Text("The device holds its clock down before any work: {reasons}.", reasons=joined(slow))
    ]


def default_name(machine: dict[str, str], *, quick: bool) -> str:
    """Return a folder's name: "bench-nvidia-h200-node7", with "-quick" if it is."""
    parts = ["bench", machine.get("device", ""), machine.get("host", "").partition(".")[0]]
    name = "-".join(p for p in parts if p) + ("-quick" if quick else "")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
