"""The last seconds of one device in figures: what a verdict rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from gpuscope.errors import UnknownNameError
from gpuscope.hardware import device as hardware_device
from gpuscope.measurement.sensors.types import HELD_BY_HEAT, HELD_BY_POWER, Held
from gpuscope.watch.types import DeviceSample, Sample

WINDOW_S = 10.0
"""Seconds that a verdict looks back: long enough for several training steps and for power readings
that drivers average over up to a second, short enough to follow what happens."""

PCIE_LANE_BYTES_PER_S: dict[int, float] = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""What a lane carries in one direction: transfers/s x coding / 8. Codings: 8b/10b, 128b/130b, and
242 bytes of payload in a FLIT of 256 (PCI-SIG, PCI Express Base Specification, revisions 1-6)."""


@dataclass(frozen=True, slots=True)
class Window:
    """Means over the last seconds of one device; None where nothing was read.

    Attributes:
        n: samples with a reading of any use.
        seconds: from the first to the last.
        busy: share of time with a kernel on the device: utilisation, else SM activity.
        swing: how far the samples' `busy` lie from their mean, on average, over that mean: 0 is
            steady, 1 and more is all or nothing.
        sm, occupancy, tensor, memory_bandwidth: as `Activity`.
        power_w: drawn.
        power_share: of the limit.
        power_held, heat_held: share of samples whose clock was held down for power, for heat.
        temperature_c: the highest.
        pcie_rx_share, pcie_tx_share: of what the link carries in that direction.
        pcie_rx_bytes_per_s, pcie_tx_bytes_per_s: traffic with the host.
        nvlink_bytes_per_s: traffic with other devices, both ways together.
        nvlink_share: of what these links carry; None where the catalogue does not know.
        memory_used_bytes, n_processes: of the last sample.
        host_cpu: share of all processors' time.
        neighbours: other devices of the host that someone uses: they work, or hold a process.
    """

    n: int
    seconds: float
    busy: float | None = None
    swing: float | None = None
    sm: float | None = None
    occupancy: float | None = None
    tensor: float | None = None
    memory_bandwidth: float | None = None
    power_w: float | None = None
    power_share: float | None = None
    power_held: float | None = None
    heat_held: float | None = None
    temperature_c: float | None = None
    pcie_rx_share: float | None = None
    pcie_tx_share: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    nvlink_bytes_per_s: float | None = None
    nvlink_share: float | None = None
    memory_used_bytes: int | None = None
    n_processes: int | None = None
    host_cpu: float | None = None
    neighbours: int = 0

    @property
    def sm_while_busy(self) -> float | None:
        """Share of SMs at work while any kernel ran: tells few large kernels from many small."""
        if self.sm is None or not self.busy:
            return None
        return min(self.sm / self.busy, 1.0)


def window_of(samples: Sequence[Sample], index: int, seconds: float = WINDOW_S) -> Window:
    """Return the last seconds of a device.

    Args:
        samples: of one host, oldest first; older ones than the window are passed over.
        index: of the device, as `SensorInfo.index`.
        seconds: how far to look back from the last sample.
    """
    if not samples:
        return Window(0, 0.0)
    since_s = samples[-1].unix_s - seconds
    recent = [sample for sample in samples if sample.unix_s >= since_s]
    devices = [d for sample in recent for d in sample.devices if d.info.index == index]
    known = [d for d in devices if _tells(d)]
    busy = [b for d in known if (b := busy_of(d)) is not None]
    mean_busy = mean(busy)
    last = devices[-1].reading if devices else None
    return Window(
        n=len(known),
        seconds=recent[-1].unix_s - recent[0].unix_s,
        busy=mean_busy,
        swing=_swing(busy, mean_busy),
        memory_used_bytes=last.memory_used_bytes if last else None,
        n_processes=len(last.processes) if last and last.processes is not None else None,
        host_cpu=mean(sample.host_cpu for sample in recent),
        neighbours=_neighbours(recent[-1], index),
        **_activity(known),
        **_power(known),
        **_traffic(known),
    )


def busy_of(device: DeviceSample) -> float | None:
    """Share of time with a kernel on the device: utilisation; SM activity where that is absent."""
    utilisation = device.reading.utilisation
    return utilisation if utilisation is not None else device.activity.sm


def pcie_peak_bytes_per_s(device: DeviceSample) -> float | None:
    """What the host link carries in one direction as it runs now; None where it is not told."""
    lane = PCIE_LANE_BYTES_PER_S.get(device.reading.pcie_generation or 0)
    width = device.reading.pcie_width
    return lane * width if lane and width else None


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what was read; None where nothing was."""
    total, count = 0.0, 0
    for value in values:
        if value is not None:
            total += value
            count += 1
    return total / count if count else None


def power_share_of(device: DeviceSample) -> float | None:
    """Power over its limit; None where either is absent."""
    power_w, limit_w = device.reading.power_w, device.reading.power_limit_w
    return power_w / limit_w if power_w is not None and limit_w else None


def nvlink_of(device: DeviceSample) -> float | None:
    """Traffic on the links between devices, both ways together."""
    rx, tx = device.activity.nvlink_rx_bytes_per_s, device.activity.nvlink_tx_bytes_per_s
    return None if rx is None and tx is None else (rx or 0.0) + (tx or 0.0)


@cache
def links_peak_bytes_per_s(name: str) -> float | None:
    """What the links between devices carry both ways together, from the catalogue's datasheets.

    Args:
        name: the device's, as its driver gives it.

    Returns:
        None where the catalogue does not know the device, or the device has no such links.
    """
    try:
        one_way = hardware_device(name).scale_up_bandwidth_bytes_per_s
    except UnknownNameError:
        return None
    return 2 * one_way if one_way else None


def _tells(device: DeviceSample) -> bool:
    return busy_of(device) is not None or device.reading.power_w is not None


def _swing(values: Sequence[float], middle: float | None) -> float | None:
    if len(values) < 3 or not middle:
        return None
    return sum(abs(value - middle) for value in values) / len(values) / middle


def _neighbours(sample: Sample, index: int) -> int:
    others = [d for d in sample.devices if d.info.index != index]
    return sum(bool(d.reading.processes) or (busy_of(d) or 0.0) >= 0.05 for d in others)


def _activity(devices: Sequence[DeviceSample]) -> dict[str, float | None]:
    names = ("sm", "occupancy", "tensor", "memory_bandwidth")
    return {name: mean(getattr(d.activity, name) for d in devices) for name in names}


def _power(devices: Sequence[DeviceSample]) -> dict[str, float | None]:
    reasons = [
        set(d.reading.throttle_reasons) for d in devices if d.reading.throttle_reasons is not None
    ]
    at_limit = (mean(power_share_of(d) for d in devices) or 0.0) >= 0.95
    # A slow-down that does not say why counts as heat unless power is at its limit.
    power = HELD_BY_POWER | ({Held.SLOWDOWN} if at_limit else set())
    heat = HELD_BY_HEAT | (set() if at_limit else {Held.SLOWDOWN})
    hottest = [d.reading.temperature_c for d in devices if d.reading.temperature_c is not None]
    return {
        "power_w": mean(d.reading.power_w for d in devices),
        "power_share": mean(power_share_of(d) for d in devices),
        "power_held": mean(float(bool(r & power)) for r in reasons),
        "heat_held": mean(float(bool(r & heat)) for r in reasons),
        "temperature_c": max(hottest, default=None),
    }


def _traffic(devices: Sequence[DeviceSample]) -> dict[str, float | None]:
    rx = mean(d.activity.pcie_rx_bytes_per_s for d in devices)
    tx = mean(d.activity.pcie_tx_bytes_per_s for d in devices)
    links = mean(nvlink_of(d) for d in devices)
    links_peak = links_peak_bytes_per_s(devices[-1].info.name) if devices else None
    # A link that rests falls back to a slower generation: the fastest one seen is what it can do.
    peak = max((p for d in devices if (p := pcie_peak_bytes_per_s(d))), default=None)
    return {
        "pcie_rx_bytes_per_s": rx,
        "pcie_tx_bytes_per_s": tx,
        "pcie_rx_share": rx / peak if rx is not None and peak else None,
        "pcie_tx_share": tx / peak if tx is not None and peak else None,
        "nvlink_bytes_per_s": links,
        "nvlink_share": links / links_peak if links is not None and links_peak else None,
    }
