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
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_BY = "NVML (nvidia-smi -q -d PCIE), /sys/bus/pci/devices/*/current_link_width"
_MANY_REPLAYS = 100
"""A few resends after a start are usual; from here on they are told."""


@check("pcie_link", "topology", Text("PCIe generation and lanes now, against what is possible"))
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
        "width": a.pcie.width,
        "max_width": a.pcie.max_width,
        "generation": a.pcie.generation,
        "max_generation": a.pcie.max_generation,
        "bytes_per_s": a.pcie.bytes_per_s,
    }


def _names(a: Accelerator) -> tuple[str, str]:
    link = a.pcie
    return (pcie_name(link.generation, link.width), pcie_name(link.max_generation, link.max_width))


def _narrow(a: Accelerator, *, shared: bool) -> Finding:
    now, best = _names(a)
    # Two cards on a consumer's board share 16 lanes of the processor: half of them is as wired.
    wired = shared and a.pcie.width == (a.pcie.max_width or 0) // 2
    return Finding(
        "pcie_link",
        "note" if wired else "warning",
        Text(
            "GPU {index} has {width} of {max_width} PCIe lanes.",
            index=a.index,
            width=a.pcie.width,
            max_width=a.pcie.max_width,
        ),
        Text("{a} at {bus}: {now}, possible {best}.", a=a.name, bus=a.bus, now=now, best=best),
        Text("Copies from and to the host take that much longer: input, offloading, checkpoints."),
        Text("Two cards of a consumer's board share 16 lanes: this is as wired.")
        if wired
        else Text(
            "Seat the card again, try another slot or riser, look at the slot's setting in the "
            "firmware (bifurcation)."
        ),
        (f"sudo lspci -vv -s {a.bus} | grep -E 'LnkCap|LnkSta'",),
        _BY,
        a.index,
        _values(a),
    )


def _slow(a: Accelerator) -> Finding:
    now, best = _names(a)
    return Finding(
        "pcie_link",
        "warning",
        Text("GPU {index} is busy on a slower PCIe generation than it could use.", index=a.index),
        Text("{now}, possible {best}.", now=now, best=best),
        Text("Under load the link should have gone up: copies take longer."),
        Text(
            "Look for errors of the link in the kernel log, and at the slot's setting in the "
            "firmware."
        ),
        ("dmesg | grep -iE 'aer|pcie bus error'",),
        _BY,
        a.index,
        _values(a),
    )


def _resting(devices: list[Accelerator]) -> Finding:
    names = gpus(a.index for a in devices)
    now, best = _names(devices[0])
    return Finding(
        "pcie_link",
        "ok",
        Text("PCIe lanes are all there; links rest."),
        Text(
            "{names}: {now} now, possible {best}; idle devices run their links slower and raise "
            "them under load.",
            names=names,
            now=now,
            best=best,
        ),
        known_by=_BY,
        values=_values(devices[0]),
    )


def _slot(machine: Machine) -> Iterable[Finding]:
    """A slot of an older generation than the device's: nothing to mend, but to know."""
    for device in nvidia_devices(machine):
        own = device.number("pcie", "device_max_generation")
        both = device.number("pcie", "max_generation")
        if own and both and both < own:
            yield Finding(
                "pcie_link",
                "note",
                Text(
                    "GPU {index} could use PCIe {own}.0, its slot gives {both}.0.",
                    index=device.index,
                    own=Number(own, ".0f"),
                    both=Number(both, ".0f"),
                ),
                Text("Host or slot set the limit."),
                known_by="NVML: nvmlDeviceGetGpuMaxPcieLinkGeneration",
                device=device.index,
                values={"device_generation": own, "slot_generation": both},
            )


def _replays(machine: Machine) -> Iterable[Finding]:
    for device in nvidia_devices(machine):
        count = device.number("pcie", "replay_counter")
        if count is not None and count >= _MANY_REPLAYS:
            yield Finding(
                "pcie_link",
                "note",
                Text(
                    "GPU {index} had to send {count} PCIe packets again.",
                    index=device.index,
                    count=Number(count, ".0f"),
                ),
                Text("Counted since the driver was loaded."),
                Text(
                    "If it keeps growing under load, the link is not clean (seating, riser, slot)."
                ),
                None,
                ("nvidia-smi -q -d PCIE | grep -i replay",),
                "NVML: nvmlDeviceGetPcieReplayCounter",
                device.index,
                {"replays": count},
            )


def _well(devices: list[Accelerator]) -> Finding:
    sorts = sorted({_names(a)[0] for a in devices})
    names = gpus(a.index for a in devices)
    rates = [r for a in devices if (r := a.pcie.bytes_per_s) is not None]
    evidence = Text("{names}: {links}.", names=names, links=", ".join(sorts))
    if rates:
        evidence = Text(
            "{names}: {links} ({rate} GB/s each way).",
            names=names,
            links=", ".join(sorts),
            rate=Number(min(rates) / 1e9, ".0f"),
        )
    return Finding(
        "pcie_link",
        "ok",
        Text("PCIe links run as they can."),
        evidence,
        known_by=_BY,
        values=_values(devices[0]),
    )
