"""PCIe: generation and lanes of each device now, against what device and slot allow.

An idle device lowers its generation to save power and raises it again under load: that is told,
not blamed. Lanes do not come and go: fewer lanes than possible is a fault of seating, slot, riser
or firmware setting. Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetCurrPcieLink*).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, is_geforce, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import Accelerator, pcie_name
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "NVML (nvidia-smi -q -d PCIE), /sys/bus/pci/devices/*/current_link_width"
_MANY_REPLAYS = 100
"""A few resends after a start are usual; from here on they are told."""


@check("pcie_link", "topology", "PCIe generation and lanes now, against what is possible")
def pcie_link(machine: Machine) -> Iterable[Finding]:
    """Look at the link of each device."""
    devices = [a for a in topology(machine).accelerators if a.pcie.width and not a.integrated]
    busy = {
        d.index
        for d in nvidia_devices(machine)
        if (d.number("utilization", "gpu_percent") or 0) >= 50
    }
    consumer = [d for d in nvidia_devices(machine) if is_geforce(d)]
    found = [_narrow(a, shared=len(consumer) > 1) for a in devices if a.pcie.narrow]
    found += [_slow(a) for a in devices if a.pcie.slow and a.vendor == "nvidia" and a.index in busy]
    found += _replays(machine)
    resting = [a for a in devices if a.pcie.slow and not (a.vendor == "nvidia" and a.index in busy)]
    if resting:
        found.append(_resting(resting))
    found += _slot(machine)
    if devices and not found:
        found.append(_well(devices))
    return found


def _values(a: Accelerator) -> dict[str, float | int | str | bool | None]:
    return {
        "width": a.pcie.width, "max_width": a.pcie.max_width, "generation": a.pcie.generation,
        "max_generation": a.pcie.max_generation, "bytes_per_s": a.pcie.bytes_per_s,
    }  # fmt: skip


def _names(a: Accelerator) -> tuple[str, str]:
    link = a.pcie
    return (
        pcie_name(link.generation, link.width), pcie_name(link.max_generation, link.max_width)
    )  # fmt: skip


def _narrow(a: Accelerator, *, shared: bool) -> Finding:
    now, best = _names(a)
    # Two cards on a consumer's board share 16 lanes of the processor: half of them is as wired.
    wired = shared and a.pcie.width == (a.pcie.max_width or 0) // 2
    return Finding(
        "pcie_link", "note" if wired else "warning",
        Words(
            f"GPU {a.index} has {a.pcie.width} of {a.pcie.max_width} PCIe lanes.",
            f"GPU {a.index} 的 PCIe 只有 {a.pcie.width}/{a.pcie.max_width} 条通道。",
        ),
        Words(
            f"{a.name} at {a.bus}: {now}, possible {best}.",
            f"{a.name}（{a.bus}）：{now}，可达 {best}。",
        ),
        Words(
            "Copies from and to the host take that much longer: input, offloading, checkpoints.",
            "主机与设备间的拷贝（输入、卸载、检查点）相应变慢。",
        ),
        Words(
            "Two cards of a consumer's board share 16 lanes: this is as wired.",
            "消费级主板上两块显卡共用 16 条通道：布线即如此。",
        )
        if wired
        else Words(
            "Seat the card again, try another slot or riser, look at the slot's setting in the "
            "firmware (bifurcation).",
            "重新插好板卡，换插槽或转接卡，检查固件中的插槽拆分（bifurcation）设置。",
        ),
        (f"sudo lspci -vv -s {a.bus} | grep -E 'LnkCap|LnkSta'",), _BY, a.index, _values(a),
    )  # fmt: skip


def _slow(a: Accelerator) -> Finding:
    now, best = _names(a)
    return Finding(
        "pcie_link", "warning",
        Words(
            f"GPU {a.index} is busy on a slower PCIe generation than it could use.",
            f"GPU {a.index} 在忙碌时仍运行于较低的 PCIe 代数。",
        ),
        Words(f"{now}, possible {best}.", f"{now}，可达 {best}。"),
        Words(
            "Under load the link should have gone up: copies take longer.",
            "有负载时链路本应提速：拷贝因此变慢。",
        ),
        Words(
            "Look for errors of the link in the kernel log, and at the slot's setting in the "
            "firmware.",
            "查看内核日志中的链路错误，以及固件中的插槽设置。",
        ),
        ("dmesg | grep -iE 'aer|pcie bus error'",), _BY, a.index, _values(a),
    )  # fmt: skip


def _resting(devices: list[Accelerator]) -> Finding:
    names = gpus(a.index for a in devices)
    now, best = _names(devices[0])
    return Finding(
        "pcie_link", "ok",
        Words("PCIe lanes are all there; links rest.", "PCIe 通道齐全，链路处于省电状态。"),
        Words(
            f"{names.en}: {now} now, possible {best}; idle devices run their links slower and "
            "raise them under load.",
            f"{names.zh}：当前 {now}，可达 {best}；空闲设备会降速，有负载时恢复。",
        ),
        known_by=_BY, values=_values(devices[0]),
    )  # fmt: skip


def _slot(machine: Machine) -> Iterable[Finding]:
    """A slot of an older generation than the device's: nothing to mend, but to know."""
    for device in nvidia_devices(machine):
        own = device.number("pcie", "device_max_generation")
        both = device.number("pcie", "max_generation")
        if own and both and both < own:
            yield Finding(
                "pcie_link", "note",
                Words(
                    f"GPU {device.index} could use PCIe {own:.0f}.0, its slot gives {both:.0f}.0.",
                    f"GPU {device.index} 支持 PCIe {own:.0f}.0，插槽只提供 {both:.0f}.0。",
                ),
                Words(
                    "Host or slot set the limit.", "限制来自主机或插槽。"
                ),
                known_by="NVML: nvmlDeviceGetGpuMaxPcieLinkGeneration", device=device.index,
                values={"device_generation": own, "slot_generation": both},
            )  # fmt: skip


def _replays(machine: Machine) -> Iterable[Finding]:
    for device in nvidia_devices(machine):
        count = device.number("pcie", "replay_counter")
        if count is not None and count >= _MANY_REPLAYS:
            yield Finding(
                "pcie_link", "note",
                Words(
                    f"GPU {device.index} had to send {count:.0f} PCIe packets again.",
                    f"GPU {device.index} 重传了 {count:.0f} 个 PCIe 数据包。",
                ),
                Words("Counted since the driver was loaded.", "自驱动加载以来的计数。"),
                Words(
                    "If it keeps growing under load, the link is not clean (seating, riser, slot).",
                    "若在负载下持续增长，说明链路信号不良（插接、转接卡、插槽）。",
                ),
                None, ("nvidia-smi -q -d PCIE | grep -i replay",),
                "NVML: nvmlDeviceGetPcieReplayCounter", device.index, {"replays": count},
            )  # fmt: skip


def _well(devices: list[Accelerator]) -> Finding:
    sorts = sorted({_names(a)[0] for a in devices})
    names = gpus(a.index for a in devices)
    rates = [r for a in devices if (r := a.pcie.bytes_per_s) is not None]
    told = f" ({min(rates) / 1e9:.0f} GB/s each way)" if rates else ""
    told_zh = f"（单向 {min(rates) / 1e9:.0f} GB/s）" if rates else ""
    said = ", ".join(sorts)
    return Finding(
        "pcie_link", "ok", Words("PCIe links run as they can.", "PCIe 链路正常。"),
        Words(f"{names.en}: {said}{told}.", f"{names.zh}：{said}{told_zh}。"),
        known_by=_BY, values=_values(devices[0]),
    )  # fmt: skip
