"""NVIDIA: what the units did, by NVML's GPU performance monitoring (GPM), from Hopper on.

GPM gives the mean between two samples that the driver takes of the device's counters; it needs no
profiler, no privilege and no exclusive use. Where it is not supported (Ampere and before, some
virtual devices), traffic alone is read: PCIe by `nvmlDeviceGetPcieThroughput` (which measures for
20 ms), NVLink by the differences of its counters. Metrics, their units (per cent, MiB/s) and the
fields: NVIDIA, "NVML API Reference Guide", sections "GPM" and "Field Value Enums" (NVLink
counters in KiB; PCIe throughput in KB/s).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.types import SensorInfo
from gpuscope.watch.activity import ActivityReader, activity_vendor, rate
from gpuscope.watch.types import Activity

_KIB, _MIB = 1 << 10, 1 << 20

METRICS: Mapping[str, tuple[str, float]] = {
    "sm": ("NVML_GPM_METRIC_SM_UTIL", 0.01),
    "occupancy": ("NVML_GPM_METRIC_SM_OCCUPANCY", 0.01),
    "tensor": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", 0.01),
    "memory_bandwidth": ("NVML_GPM_METRIC_DRAM_BW_UTIL", 0.01),
    "pcie_rx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MIB),
    "pcie_tx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MIB),
    "nvlink_rx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", _MIB),
    "nvlink_tx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", _MIB),
}
"""Field of `Activity` -> GPM's metric, and the factor to our unit."""

LEAST_GAP_S = 0.1
"""Between two samples of GPM; of a shorter stretch its counters tell nothing."""

ALL_LINKS = 0xFFFFFFFF
"""Scope of a field that means all NVLinks together."""


@dataclass(frozen=True, slots=True)
class _Links:
    """NVLink's counters at one moment."""

    time_s: float
    rx_bytes: float | None
    tx_bytes: float | None


class Gpm:
    """The counters of a device between two moments."""

    def __init__(self, nvml: Any, board: Any, instance: int | None) -> None:
        self._nvml = nvml
        self._board = board
        self._instance = instance
        self._older = nvml.nvmlGpmSampleAlloc()
        self._newer = nvml.nvmlGpmSampleAlloc()
        self._taken_at = 0.0
        self._take(self._older)

    def read(self) -> dict[str, float]:
        """Return the means since the call before; what the device does not tell is left out.

        Nothing is told of a stretch shorter than `LEAST_GAP_S`: the next call covers it.

        Raises:
            NVMLError: as the library raises.
        """
        nvml = self._nvml
        if time.monotonic() - self._taken_at < LEAST_GAP_S:
            return {}
        self._take(self._newer)
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(METRICS)
        asked.sample1, asked.sample2 = self._older, self._newer
        for place, (name, _) in enumerate(METRICS.values()):
            asked.metrics[place].metricId = getattr(nvml, name)
        nvml.nvmlGpmMetricsGet(asked)
        self._older, self._newer = self._newer, self._older
        found = {}
        for place, (field, (_, factor)) in enumerate(METRICS.items()):
            metric = asked.metrics[place]
            if metric.nvmlReturn == 0 and metric.value >= 0:  # NaN compares false
                value = float(metric.value) * factor
                found[field] = min(value, 1.0) if factor == 0.01 else value
        return found

    def close(self) -> None:
        """Free the two samples."""
        for sample in (self._older, self._newer):
            self._nvml.nvmlGpmSampleFree(sample)

    def _take(self, sample: Any) -> None:
        self._taken_at = time.monotonic()
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._board, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._board, self._instance, sample)


class NvidiaActivity:
    """One device, or one MIG instance (whose traffic on the links belongs to the whole device)."""

    def __init__(self, nvml: Any, handle: Any, *, mig: bool) -> None:
        self._nvml = nvml
        self._board = handle
        self._mig = mig
        self._links: _Links | None = None
        self._refused: set[str] = set()
        self._notes: list[str] = []
        self._closed = False
        self._gpm = self._open_gpm(handle)

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be read, and why."""
        return tuple(self._notes)

    def read(self) -> Activity:
        """Return what the units did since the call before."""
        if self._closed:
            return Activity()
        found = self._gpm_read()
        if not self._mig:
            if "pcie_rx_bytes_per_s" not in found:
                found.update(self._pcie())
            if "nvlink_rx_bytes_per_s" not in found:
                found.update(self._nvlink())
        return Activity(**found)

    def close(self) -> None:
        """Free the samples and let go of the library."""
        if self._closed:
            return
        self._closed = True
        if self._gpm is not None:
            self._ask(self._gpm.close)
        self._ask(self._nvml.nvmlShutdown)

    def _open_gpm(self, handle: Any) -> Gpm | None:
        nvml = self._nvml
        if not hasattr(nvml, "nvmlGpmQueryDeviceSupport"):
            self._notes.append(Text("This nvidia-ml-py is too old to read what the SMs do."))
            return None
        instance: int | None = None
        try:
            if self._mig:
                instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
                self._board = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            if nvml.nvmlGpmQueryDeviceSupport(self._board).isSupportedDevice:
                return Gpm(nvml, self._board, instance)
        except nvml.NVMLError as error:
            self._notes.append(Text("What the SMs do may not be read: {error}.", error=error))
            return None
        self._notes.append(
            Text("This device does not tell what its SMs do (NVML's GPM begins with Hopper).")
        )
        return None

    def _gpm_read(self) -> dict[str, float]:
        if self._gpm is None:
            return {}
        return self._ask(self._gpm.read) or {}

    def _pcie(self) -> dict[str, float]:
        nvml, found = self._nvml, {}
        for field, kind in (
            ("pcie_rx_bytes_per_s", getattr(nvml, "NVML_PCIE_UTIL_RX_BYTES", 1)),
            ("pcie_tx_bytes_per_s", getattr(nvml, "NVML_PCIE_UTIL_TX_BYTES", 0)),
        ):
            if field in self._refused:
                continue
            kb_per_s = self._ask(nvml.nvmlDeviceGetPcieThroughput, self._board, kind)
            if kb_per_s is None:
                self._refused.add(field)
            else:
                found[field] = float(kb_per_s) * 1e3
        return found

    def _nvlink(self) -> dict[str, float]:
        if "nvlink" in self._refused:
            return {}
        now = self._link_counters()
        if now is None:
            self._refused.add("nvlink")
            return {}
        before, self._links = self._links, now
        if before is None:
            return {}
        seconds = now.time_s - before.time_s
        rates = {
            "nvlink_rx_bytes_per_s": rate(before.rx_bytes, now.rx_bytes, seconds),
            "nvlink_tx_bytes_per_s": rate(before.tx_bytes, now.tx_bytes, seconds),
        }
        return {field: value for field, value in rates.items() if value is not None}

    def _link_counters(self) -> _Links | None:
        nvml = self._nvml
        fields = [
            (getattr(nvml, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", 139), ALL_LINKS),
            (getattr(nvml, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", 138), ALL_LINKS),
        ]
        values = self._ask(nvml.nvmlDeviceGetFieldValues, self._board, fields)
        at = time.perf_counter()
        if values is None or all(value.nvmlReturn != 0 for value in values):
            return None
        rx, tx = (_counter(value) for value in values)
        return _Links(at, rx, tx)

    def _ask(self, call: Any, *args: Any) -> Any:
        try:
            return call(*args)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _counter(value: Any) -> float | None:
    """A field's value in bytes; None where the device refused it."""
    return float(value.value.ullVal) * _KIB if value.nvmlReturn == 0 else None


def open_with(nvml: Any, info: SensorInfo) -> ActivityReader | None:
    """Open a device with a given library (the real one, or a stand-in in tests)."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(info.uuid)
    except nvml.NVMLError:
        nvml.nvmlShutdown()
        return None
    return NvidiaActivity(nvml, handle, mig=info.slice)


@activity_vendor("nvidia")
def open_nvidia(info: SensorInfo) -> ActivityReader | None:
    """Open an NVIDIA device; None without `nvidia-ml-py`, driver or device."""
    try:
        import pynvml
    except ImportError:
        return None
    return open_with(pynvml, info)
