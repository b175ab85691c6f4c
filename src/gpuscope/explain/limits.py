"""What sets a kernel's time, in words."""

from __future__ import annotations

from gpuscope.explain.types import Words
from gpuscope.hardware import Device

_LIMITERS: dict[str, Words] = {
    "compute": Words("the vector lanes", "向量单元"),
    "memory": Words("device memory", "显存带宽"),
    "l2": Words("the L2 cache", "L2 缓存"),
    "issue": Words("instruction issue", "指令发射"),
    "latency": Words("fixed latencies: there is too little work", "固定延迟：工作量太小"),
    "launch": Words("the launch itself", "启动本身"),
    "link": Words("a link", "链路"),
    "host": Words("the host", "主机"),
    "unknown": Words("not known", "未知"),
}
"""By `gpuscope.cost.types.Limiter`."""


def matrix_unit(device: Device) -> Words:
    """What the device's matrix units are called."""
    if device.vendor == "NVIDIA":
        return Words("tensor cores", "张量核心")
    return Words("matrix units", "矩阵单元")


def limiter(name: str, device: Device) -> Words:
    """What sets a kernel's time, by its `limiter`."""
    if name == "tensor_core":
        unit = matrix_unit(device)
        return Words(f"the {unit.en}", unit.zh)
    return _LIMITERS[name]
