"""The metrics that the exporter gives: one list that dashboards, alert rules and readers share.

Names follow Prometheus, "Metric and label naming" (base units, the unit in the name, `_total` for
counters) and the OpenMetrics 1.0 text format (`# UNIT`, state sets). What a device does not tell
has no sample at all: an absent series is "not available", a 0 is a measured nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gpuscope.watch.health import Health
from gpuscope.watch.types import DeviceSample, VerdictKind

MetricKind = Literal["gauge", "counter", "stateset"]

DEVICE_LABELS = ("host", "index", "uuid", "name")
"""On every metric of a device: the host's name, the device as PyTorch counts it there, the
driver's identifier, the product's name."""

PROCESS_LABELS = (*DEVICE_LABELS, "pid", "process", "container", "slurm_job_id", "pod", "namespace")
"""On metrics of a process; a label is empty (which Prometheus takes as absent) where unknown."""

VERDICTS: tuple[str, ...] = get_args(VerdictKind)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as it stands in the exposition's samples; a counter's ends in `_total`.
        kind: its type.
        about: what it says, one English sentence.
        labels: names of its labels, in order.
        field: where in a `DeviceSample` the figure stands: ("reading", "power_w"), or in a
            `Health`: ("health", "last_xid"); None where it is not one figure of a device.
    """

    name: str
    kind: MetricKind
    about: str
    labels: tuple[str, ...] = DEVICE_LABELS
    field: tuple[str, str] | None = None

    @property
    def family(self) -> str:
        """The name in `# TYPE`: without a counter's `_total`."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name

    @property
    def unit(self) -> str:
        """The unit in the name; "" where it has none."""
        last = self.family.rpartition("_")[2]
        return last if last in _UNITS else ""

    def value(self, device: DeviceSample, health: Health | None = None) -> float | None:
        """Return the device's figure; None where it was not read, or is no number."""
        if self.field is None:
            return None
        place = health if self.field[0] == "health" else getattr(device, self.field[0])
        figure = getattr(place, self.field[1], None)
        return float(figure) if figure is not None and math.isfinite(figure) else None


_UNITS = frozenset({"watts", "joules", "celsius", "hertz", "ratio", "bytes", "seconds"})


def _of(place: str, kind: MetricKind, **figures: tuple[str, str]) -> tuple[Metric, ...]:
    return tuple(
        Metric(f"gpuscope_device_{name}", kind, about, field=(place, field))
        for name, (field, about) in figures.items()
    )


DEVICE_FIGURES: tuple[Metric, ...] = (
    *_of(
        "reading",
        "gauge",
        power_watts=("power_w", "Power drawn now, averaged by the driver."),
        power_limit_watts=("power_limit_w", "Power that the driver holds the device to."),
        temperature_celsius=("temperature_c", "Temperature of the chip."),
        sm_clock_hertz=("sm_clock_hz", "Clock of the processors now."),
        memory_clock_hertz=("memory_clock_hz", "Clock of the device memory now."),
        utilization_ratio=(
            "utilisation",
            "Share of the driver's last period in which any kernel ran; says nothing of how much "
            "of the device it used.",
        ),
        memory_used_bytes=("memory_used_bytes", "Device memory in use, by everyone."),
        memory_total_bytes=("memory_total_bytes", "Device memory in all."),
        pcie_generation=("pcie_generation", "PCI Express generation that the link runs at now."),
        pcie_lanes=("pcie_width", "PCI Express lanes that the link runs with now."),
    ),
    *_of(
        "reading",
        "counter",
        energy_joules_total=("energy_j", "Energy since some moment in the past."),
    ),
    *_of(
        "activity",
        "gauge",
        sm_activity_ratio=("sm", "Share of time that SMs had work, averaged over the SMs."),
        sm_occupancy_ratio=("occupancy", "Resident warps over the most that fit."),
        tensor_activity_ratio=("tensor", "Share of time that tensor cores were busy."),
        memory_bandwidth_ratio=("memory_bandwidth", "Device memory traffic over its peak rate."),
        pcie_receive_bytes_per_second=("pcie_rx_bytes_per_s", "To the device over PCI Express."),
        pcie_transmit_bytes_per_second=("pcie_tx_bytes_per_s", "From the device over PCI Express."),
        nvlink_receive_bytes_per_second=("nvlink_rx_bytes_per_s", "To the device over NVLink."),
        nvlink_transmit_bytes_per_second=("nvlink_tx_bytes_per_s", "From it over NVLink."),
    ),
)
"""Metrics that are one figure of a device's sample."""

DEVICE_INFO = Metric(
    "gpuscope_device_info",
    "gauge",
    "Always 1; the labels say what the device is.",
    (*DEVICE_LABELS, "vendor", "driver", "slice"),
)
THROTTLED = Metric(
    "gpuscope_device_throttled", "gauge", "1 while anything holds the clock down, else 0."
)
THROTTLE_REASON = Metric(
    "gpuscope_device_throttle_reason",
    "gauge",
    "1 for each reason that holds the clock down now, in the vendor's words.",
    (*DEVICE_LABELS, "reason"),
)
THROTTLE_SECONDS = Metric(
    "gpuscope_device_throttle_seconds_total",
    "counter",
    "Time that the clock was held down, by reason, since some moment in the past.",
    (*DEVICE_LABELS, "reason"),
)
VERDICT = Metric(
    "gpuscope_device_verdict",
    "stateset",
    "What the last seconds of the device mean.",
    (*DEVICE_LABELS, "gpuscope_device_verdict"),
)
VERDICT_CERTAINTY = Metric(
    "gpuscope_device_verdict_certainty_ratio", "gauge", "How well the readings support the verdict."
)
PROCESS_MEMORY = Metric(
    "gpuscope_process_memory_bytes", "gauge", "Device memory that a process holds.", PROCESS_LABELS
)
HOST_CPU = Metric(
    "gpuscope_host_cpu_ratio", "gauge", "Share of all processors' time in use.", ("host",)
)
HOST_DEVICES = Metric("gpuscope_host_devices", "gauge", "Devices that are watched.", ("host",))
HOST_ENERGY = Metric(
    "gpuscope_host_package_energy_joules_total",
    "counter",
    "Energy of the host's processor packages since the exporter began, where it may be read.",
    ("host",),
)
SAMPLE_TIME = Metric(
    "gpuscope_sample_timestamp_seconds",
    "gauge",
    "When the figures were read, seconds since 1970.",
    ("host",),
)
EXPORTER_INFO = Metric(
    "gpuscope_exporter_info", "gauge", "Always 1; the label says the version.", ("version",)
)

HEALTH_FIGURES: tuple[Metric, ...] = (
    *_of(
        "health",
        "counter",
        ecc_corrected_errors_total=("ecc_corrected", "Memory errors that were put right."),
        ecc_uncorrected_errors_total=("ecc_uncorrected", "Memory errors that lost data."),
        xid_errors_total=("xid_errors", "Xid errors of the driver since the exporter began."),
    ),
    *_of(
        "health",
        "gauge",
        last_xid=("last_xid", "Number of the last Xid error; absent before the first."),
        rows_remapped=("rows_remapped", "Rows of device memory that were replaced."),
        row_remap_pending=("remap_pending", "1 while a row waits for a reset to be replaced."),
        row_remap_failed=("remap_failed", "1 if no spare row was left: replace the device."),
    ),
)
"""Metrics that are one figure of a device's `Health`, which this host's exporter reads itself."""

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        DEVICE_INFO,
        *DEVICE_FIGURES,
        THROTTLED,
        THROTTLE_REASON,
        THROTTLE_SECONDS,
        *HEALTH_FIGURES,
        VERDICT,
        VERDICT_CERTAINTY,
        PROCESS_MEMORY,
        HOST_CPU,
        HOST_DEVICES,
        HOST_ENERGY,
        SAMPLE_TIME,
        EXPORTER_INFO,
    )
}
"""Every metric of ours by name."""
