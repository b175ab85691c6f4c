"""Samples of devices over time, and the verdict on what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.types import Reading, SensorInfo


@dataclass(frozen=True, slots=True)
class Activity:
    """What the device's units did since the sample before, 0..1; None where it may not be read.

    NVML's GPM (Hopper and later) and DCGM's profiling metrics tell these; utilisation alone says
    only that some kernel ran.

    Attributes:
        sm: share of time that SMs had at least one warp.
        occupancy: resident warps over the most possible.
        tensor: share of time that tensor cores were busy.
        memory_bandwidth: share of the device memory's bandwidth.
        pcie_rx_bytes_per_s, pcie_tx_bytes_per_s: to and from the device over the host bus.
        nvlink_rx_bytes_per_s, nvlink_tx_bytes_per_s: over all links.
    """

    sm: float | None = None
    occupancy: float | None = None
    tensor: float | None = None
    memory_bandwidth: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device at one moment."""

    info: SensorInfo
    reading: Reading
    activity: Activity


@dataclass(frozen=True, slots=True)
class Sample:
    """All devices of one host at one moment.

    Attributes:
        unix_s: when, seconds since 1970.
        host: its name.
        devices: one entry a device, by index.
        host_cpu: share of all processors' time in use since the sample before; None at first.
    """

    unix_s: float
    host: str
    devices: tuple[DeviceSample, ...]
    host_cpu: float | None = None


VerdictKind = Literal[
    "idle",
    "waiting_for_input",
    "host_bound",
    "compute_bound",
    "memory_bound",
    "communication_bound",
    "power_limited",
    "thermally_limited",
    "busy",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the last seconds of a device mean.

    Attributes:
        kind: a stable word.
        head: the same in words.
        evidence: the figures that it rests on; "" where there are none.
        sure: 0..1, how well the readings support it.
    """

    kind: VerdictKind
    head: Text
    evidence: Text
    sure: float

    @property
    def sentence(self) -> Text:
        """Head and figures in one sentence."""
        if not self.evidence:
            return self.head
        return Text("{head}: {evidence}", head=self.head, evidence=self.evidence)
