"""What sets a kernel's time, in words."""

from __future__ import annotations

from gpuscope.cost.limits import named_limiter
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.explanation.operators import peak_flops_per_s
from gpuscope.hardware import Device

_LIMITERS: dict[str, Text] = {
    "compute": Text("the vector lanes"),
    "memory": Text("device memory"),
    "l2": Text("the L2 cache"),
    "issue": Text("instruction issue"),
    "latency": Text("latencies: starting, waiting for operands, empty units"),
    "launch": Text("the launch itself"),
    "link": Text("a link"),
    "host": Text("the host"),
    "unknown": Text("not known"),
}
"""By `gpuscope.cost.types.Limiter`."""


def matrix_unit(device: Device) -> Text:
    """What the device's matrix units are called."""
    if device.vendor == "NVIDIA":
        return Text("tensor cores")
    return Text("matrix units")


def an(unit: str) -> Text:
    """A multiprocessor's name with its article: "an SM", "a CU"."""
    vowel = unit[:1] in "AEFHILMNORSX" and unit[:2].isupper()
    return Text("an {unit}", unit=unit) if vowel else Text("a {unit}", unit=unit)


def kernel_limiter(kernel: Kernel, device: Device, *, aligned: bool = True) -> Text:
    """What sets a kernel's time; a unit only where it is at work for half of it.

    Args:
        kernel: with its time and FLOPs.
        device: what it runs on.
        aligned: see `named_limiter`.
    """
    at_peak_s = None
    if kernel.flops and kernel.dtype:
        at_peak_s = kernel.flops / peak_flops_per_s(device, kernel.dtype)
    name = named_limiter(kernel.limiter, kernel.duration_s, at_peak_s, aligned=aligned)
    return limiter(name, device)


def limiter(name: str, device: Device) -> Text:
    """What sets a kernel's time, by the name of what limits it."""
    if name == "tensor_core":
        unit = matrix_unit(device)
        return Text("the {unit}", unit=unit)
    return _LIMITERS[name]
