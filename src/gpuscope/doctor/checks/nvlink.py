"""NVLink: ports that are down, errors on them, and the fabric behind NVSwitches.

Sources: NVIDIA, NVML API Reference Guide (NvLink methods, nvmlGpuFabricInfo); NVIDIA, Fabric
Manager User Guide (devices behind NVSwitches answer CUDA only once the fabric is set up).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuscope.doctor.accelerators import torch_facts
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices, spans
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.accelerators import catalogue_device, nvlinks
from gpuscope.doctor.topology.types import NvLinks
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "NVML: nvmlDeviceGetNvLinkState (nvidia-smi nvlink -s)"
_FIX = Words(
    "Reset the devices or restart the host; if ports stay down, have board, bridge or switch "
    "looked at. In the kernel log, Xid 74 and SXid lines say more.",
    "重置设备或重启主机；若端口仍不通，请检修板卡、桥接器或交换芯片。内核日志中的 Xid 74 与 SXid "
    "有更多信息。",
)  # fmt: skip


@check("nvlink", "topology", "NVLink ports against what the device has, their errors, the fabric")
def nvlink(machine: Machine) -> Iterable[Finding]:
    """Compare ports that are up with the catalogue and with the device's neighbours."""
    devices = [d for d in nvidia_devices(machine) if d.get("mig_mode") is not True]
    linked = [(d, links) for d in devices if (links := nvlinks(d)) is not None]
    found = [*_fabric(machine, devices)]
    most = max((links.active for _, links in linked), default=0)
    for device, links in linked:
        found += _down(device, links, most, alone=len(devices) == 1)
    found += _errors([device for device, _ in linked])
    if not found and most:
        found.append(_well(linked))
    return found


def _down(device: NvidiaDevice, links: NvLinks, most: int, *, alone: bool) -> Iterable[Finding]:
    wanted = links.expected if links.expected is not None else most
    if links.active >= wanted or (links.active == 0 and (alone or _bridged(device))):
        return  # a single device, or a card without its bridge, needs no link
    if not links.down and links.active == most:
        return  # all ports that exist are up, here as elsewhere: this part has no more
    name = gpus([device.index])
    which = spans(links.down) if links.down else "?"
    rate = _share(links, wanted)
    yield Finding(
        "nvlink", "warning",
        Words(
            f"{name.en} runs {links.active} of {wanted} NVLink ports.",
            f"{name.zh} 的 NVLink 端口只有 {links.active}/{wanted} 可用。",
        ),
        Words(f"Ports down: {which}. {rate.en}", f"不通的端口：{which}。{rate.zh}"),
        Words(
            "Collectives go at the pace of the slowest device: all of them wait for this one.",
            "集合通信以最慢的设备为准：所有设备都要等它。",
        ),
        _FIX, ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e"), _BY, device.index,
        {"active_links": links.active, "expected_links": wanted},
    )  # fmt: skip


def _share(links: NvLinks, wanted: int) -> Words:
    if links.bytes_per_s is None or not links.active:
        return Words("", "")
    now = links.bytes_per_s / 1e9
    best = now * wanted / links.active
    return Words(
        f"{now:.0f} GB/s each way instead of {best:.0f}.",
        f"单向 {now:.0f} GB/s，应为 {best:.0f} GB/s。",
    )


def _bridged(device: NvidiaDevice) -> bool:
    """A card whose NVLink needs a bridge that not everyone has."""
    known = catalogue_device(device.name)
    if known is None or known.scale_up is None:
        return True
    topology = known.scale_up.topology or ""
    return "bridge" in topology or "stand-alone" in topology


def _errors(devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    for device in devices:
        counts: dict[str, int] = {}
        for port in device.get("nvlinks"):
            for kind, count in (port.get("errors") or {}).items():
                counts[kind] = counts.get(kind, 0) + (count or 0)
        grave = {k: n for k, n in counts.items() if n and k in ("replay", "recovery")}
        if grave:
            told = ", ".join(f"{k} {n}" for k, n in grave.items())
            name = gpus([device.index])
            yield Finding(
                "nvlink", "note",
                Words(
                    f"{name.en} counts errors on its NVLinks.",
                    f"{name.zh} 的 NVLink 有错误计数。",
                ),
                Words(f"Since the driver was loaded: {told}.", f"自驱动加载以来：{told}。"),
                Words(
                    "Each one costs a retry; a number that keeps growing is a link that fails.",
                    "每次错误都要重传；若数字持续增长，说明链路将要失效。",
                ),
                None, ("nvidia-smi nvlink -e",),
                "NVML: nvmlDeviceGetNvLinkErrorCounter", device.index,
                {f"{k}_errors": n for k, n in counts.items()},
            )  # fmt: skip


def _fabric(machine: Machine, devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    waiting = [
        d for d in devices if d.get("fabric", "state") in ("not_started", "in_progress")
    ]  # fmt: skip
    works = bool((torch_facts(machine) or {}).get("available"))
    if waiting and not works:
        names = gpus(d.index for d in waiting)
        state = str(waiting[0].get("fabric", "state")).replace("_", " ")
        yield Finding(
            "nvlink", "error",
            Words("The NVLink fabric is not set up.", "NVLink 网络尚未建立。"),
            Words(f"{names.en}: state {state}.", f"{names.zh}：状态为 {state}。"),
            Words(
                "CUDA answers 'system not yet initialized' (error 802) until it is.",
                "在此之前 CUDA 会报 “system not yet initialized”（错误 802）。",
            ),
            Words(
                "Start the fabric manager of the same version as the driver, on the host.",
                "在主机上启动与驱动版本一致的 fabric manager。",
            ),
            ("sudo systemctl enable --now nvidia-fabricmanager", "nvidia-smi -q -d FABRIC"),
            "NVML: nvmlDeviceGetGpuFabricInfoV", None, {"waiting_devices": len(waiting)},
        )  # fmt: skip
    for device in devices:
        health = device.get("fabric", "health")
        if health in ("unhealthy", "limited_capacity"):
            name, said = gpus([device.index]), str(health).replace("_", " ")
            yield Finding(
                "nvlink", "warning",
                Words(
                    f"The NVLink fabric of {name.en} is {said}.",
                    f"{name.zh} 的 NVLink 网络异常。",
                ),
                Words(f"Health: {said}.", f"健康状态：{said}。"),
                Words(
                    "Traffic takes fewer or slower ways.", "流量只能走更少或更慢的通路。"
                ),
                _FIX, ("nvidia-smi -q -d FABRIC",), "NVML: nvmlDeviceGetGpuFabricInfoV",
                device.index, {"fabric_health": str(health)},
            )  # fmt: skip


def _well(linked: Sequence[tuple[NvidiaDevice, NvLinks]]) -> Finding:
    up = {links.active for _, links in linked if links.active}
    names = gpus(device.index for device, links in linked if links.active)
    rate = next((links.bytes_per_s for _, links in linked if links.bytes_per_s), None)
    told = f", {rate / 1e9:.0f} GB/s" if rate else ""
    ports = spans(up)
    return Finding(
        "nvlink", "ok", Words("NVLink is up.", "NVLink 正常。"),
        Words(
            f"{names.en}: {ports} ports each{told}{' each way' if told else ''}.",
            f"{names.zh}：每个 {ports} 个端口{told}{'（单向）' if told else ''}。",
        ),
        known_by=_BY, values={"active_links": min(up), "bytes_per_s": rate},
    )  # fmt: skip
