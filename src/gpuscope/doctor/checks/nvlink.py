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
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim

_BY = "NVML: nvmlDeviceGetNvLinkState (nvidia-smi nvlink -s)"
_FIX = Text(
    "Reset the devices or restart the host; if ports stay down, have board, bridge or switch "
    "looked at. In the kernel log, Xid 74 and SXid lines say more."
)


@check(
    "nvlink", "topology", Text("NVLink ports against what the device has, their errors, the fabric")
)
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
        "nvlink",
        "warning",
        Text(
            "{name} runs {active} of {wanted} NVLink ports.",
            name=name,
            active=links.active,
            wanted=wanted,
        ),
        Text("Ports down: {which}. {rate}", which=which, rate=rate),
        Text("Collectives go at the pace of the slowest device: all of them wait for this one."),
        _FIX,
        ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e"),
        _BY,
        device.index,
        {"active_links": links.active, "expected_links": wanted},
    )


def _share(links: NvLinks, wanted: int) -> Text:
    if links.bytes_per_s is None or not links.active:
        return verbatim("")
    now = links.bytes_per_s / 1e9
    best = now * wanted / links.active
    return Text(
        "{now} GB/s each way instead of {best}.", now=Number(now, ".0f"), best=Number(best, ".0f")
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
            evidence = ", ".join(f"{k} {n}" for k, n in grave.items())
            name = gpus([device.index])
            yield Finding(
                "nvlink",
                "note",
                Text("{name} counts errors on its NVLinks.", name=name),
                Text("Since the driver was loaded: {told}.", told=evidence),
                Text("Each one costs a retry; a number that keeps growing is a link that fails."),
                None,
                ("nvidia-smi nvlink -e",),
                "NVML: nvmlDeviceGetNvLinkErrorCounter",
                device.index,
                {f"{k}_errors": n for k, n in counts.items()},
            )


def _fabric(machine: Machine, devices: Sequence[NvidiaDevice]) -> Iterable[Finding]:
    waiting = [d for d in devices if d.get("fabric", "state") in ("not_started", "in_progress")]
    works = bool((torch_facts(machine) or {}).get("available"))
    if waiting and not works:
        names = gpus(d.index for d in waiting)
        state = str(waiting[0].get("fabric", "state")).replace("_", " ")
        yield Finding(
            "nvlink",
            "error",
            Text("The NVLink fabric is not set up."),
            Text("{names}: state {state}.", names=names, state=state),
            Text("CUDA answers 'system not yet initialized' (error 802) until it is."),
            Text("Start the fabric manager of the same version as the driver, on the host."),
            ("sudo systemctl enable --now nvidia-fabricmanager", "nvidia-smi -q -d FABRIC"),
            "NVML: nvmlDeviceGetGpuFabricInfoV",
            None,
            {"waiting_devices": len(waiting)},
        )
    for device in devices:
        health = device.get("fabric", "health")
        if health in ("unhealthy", "limited_capacity"):
            name, said = gpus([device.index]), str(health).replace("_", " ")
            yield Finding(
                "nvlink",
                "warning",
                Text("The NVLink fabric of {name} is {said}.", name=name, said=said),
                Text("Health: {said}.", said=said),
                Text("Traffic takes fewer or slower ways."),
                _FIX,
                ("nvidia-smi -q -d FABRIC",),
                "NVML: nvmlDeviceGetGpuFabricInfoV",
                device.index,
                {"fabric_health": str(health)},
            )


def _well(linked: Sequence[tuple[NvidiaDevice, NvLinks]]) -> Finding:
    up = {links.active for _, links in linked if links.active}
    names = gpus(device.index for device, links in linked if links.active)
    rate = next((links.bytes_per_s for _, links in linked if links.bytes_per_s), None)
    evidence = Text("{names}: {ports} ports each.", names=names, ports=spans(up))
    if rate:
        evidence = Text(
            "{names}: {ports} ports each, {rate} GB/s each way.",
            names=names,
            ports=spans(up),
            rate=Number(rate / 1e9, ".0f"),
        )
    return Finding(
        "nvlink",
        "ok",
        Text("NVLink is up."),
        evidence,
        known_by=_BY,
        values={"active_links": min(up), "bytes_per_s": rate},
    )
