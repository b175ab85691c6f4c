"""AMD: memory and link traffic, as far as the driver's management library tells.

Names, fields and units: AMD, "AMD SMI Python API reference": `umc_activity` (how busy the memory
controllers are, in per cent), `pcie_bandwidth` (both directions together, Mbit/s) and the
accumulated `xgmi_read_data_acc` and `xgmi_write_data_acc` of all links (KB). No share of busy
compute units or matrix cores is told without a profiler. Written to that reference and tested
against a stand-in: not run on a device yet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.types import SensorInfo
from gpuscope.watch.activity import ActivityReader, activity_vendor, rate
from gpuscope.watch.types import Activity

NOTE = Text(
    "AMD's library does not tell the share of busy compute units, matrix cores, PCIe directions."
)


class AmdActivity:
    """One device."""

    def __init__(self, smi: Any, handle: Any) -> None:
        self._smi = smi
        self._handle = handle
        self._before: tuple[float, float | None, float | None] | None = None
        self._closed = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be read."""
        return (NOTE,)

    def read(self) -> Activity:
        """Return what the memory and the links did since the call before."""
        if self._closed:
            return Activity()
        busy = _number(self._fields("amdsmi_get_gpu_activity").get("umc_activity"))
        metrics = self._fields("amdsmi_get_gpu_metrics_info")
        now = (
            time.perf_counter(),
            _total(metrics.get("xgmi_read_data_acc")),
            _total(metrics.get("xgmi_write_data_acc")),
        )
        before, self._before = self._before or now, now
        seconds = now[0] - before[0]
        return Activity(
            memory_bandwidth=None if busy is None else min(busy / 100, 1.0),
            nvlink_rx_bytes_per_s=rate(before[1], now[1], seconds),
            nvlink_tx_bytes_per_s=rate(before[2], now[2], seconds),
        )

    def close(self) -> None:
        """Let go of the library."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(self._smi.AmdSmiException):
                self._smi.amdsmi_shut_down()

    def _fields(self, name: str) -> Mapping[str, Any]:
        call = getattr(self._smi, name, None)
        if call is None:
            return {}
        try:
            found = call(self._handle)
        except self._smi.AmdSmiException:
            return {}
        return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> float | None:
    """A number, or None for "N/A", which stands for what is not supported."""
    return float(value) if isinstance(value, int | float) else None


def _total(values: Any) -> float | None:
    """Bytes over all links that tell; None where none does."""
    if not isinstance(values, list | tuple):
        return None
    known = [number for value in values if (number := _number(value)) is not None]
    return sum(known) * 1e3 if known else None


def open_with(smi: Any, info: SensorInfo) -> ActivityReader | None:
    """Open a device with a given library (the real one, or a stand-in in tests)."""
    try:
        smi.amdsmi_init()
    except smi.AmdSmiException:
        return None
    try:
        for handle in smi.amdsmi_get_processor_handles():
            if smi.amdsmi_get_gpu_device_uuid(handle) == info.uuid:
                return AmdActivity(smi, handle)
    except smi.AmdSmiException:
        pass
    smi.amdsmi_shut_down()
    return None


@activity_vendor("amd")
def open_amd(info: SensorInfo) -> ActivityReader | None:
    """Open an AMD device; None without `amdsmi`, driver or device."""
    try:
        import amdsmi
    except (ImportError, KeyError, OSError):  # the package without its library raises the latter
        return None
    return open_with(amdsmi, info)
