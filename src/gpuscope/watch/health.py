"""Memory errors and driver errors of a device: what the exporter gives beside a sample.

NVIDIA, by its management library: ECC errors over the device's life, rows of memory that were
replaced, and the driver's Xid errors, which it tells to whoever waits for them (no kernel log, no
privilege needed). NVIDIA, "NVML API Reference Guide", sections "Device Queries" (ECC, remapped
rows) and "Event Handling Methods". For other vendors nothing is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuscope.measurement.sensors.types import SensorInfo

_MOST_EVENTS = 1000
"""Read in one go; a device in such trouble is told of all the same."""


@dataclass(frozen=True, slots=True)
class Health:
    """Errors of a device; None where it does not tell.

    Attributes:
        ecc_corrected, ecc_uncorrected: memory errors in its life.
        rows_remapped: rows of memory that were replaced.
        remap_pending: a row waits for a reset of the device to be replaced.
        remap_failed: there was no spare row left: the device should be replaced.
        xid_errors: Xid errors since we began to listen.
        last_xid: number of the last of them; None before the first.
    """

    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    rows_remapped: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    xid_errors: int | None = None
    last_xid: int | None = None


class HealthReaders:
    """Reads the health of devices of this host, each opened when first asked."""

    def __init__(self, nvml: Any = None) -> None:
        """`nvml` is the vendor's library; None imports it, a stand-in serves in tests."""
        self._nvml = nvml
        self._opened: dict[str, NvidiaHealth | None] = {}

    def read(self, info: SensorInfo) -> Health:
        """Return a device's health now; empty where nothing is told."""
        if info.vendor != "nvidia" or not info.uuid:
            return Health()
        if info.uuid not in self._opened:
            self._opened[info.uuid] = self._open(info.uuid)
        reader = self._opened[info.uuid]
        return reader.read() if reader else Health()

    def close(self) -> None:
        """Let go of the library."""
        for reader in self._opened.values():
            if reader:
                reader.close()
        self._opened = {}

    def _open(self, uuid: str) -> NvidiaHealth | None:
        if self._nvml is None:
            try:
                import pynvml
            except ImportError:
                return None
            self._nvml = pynvml
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError:
            return None
        try:
            return NvidiaHealth(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID(uuid))
        except self._nvml.NVMLError:
            self._nvml.nvmlShutdown()
            return None


class NvidiaHealth:
    """One device."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._xid_errors = 0
        self._last_xid: int | None = None
        self._events = self._listen()

    def read(self) -> Health:
        """Return its health now."""
        nvml = self._nvml
        rows = self._ask("nvmlDeviceGetRemappedRows")
        self._hear()
        return Health(
            self._ecc(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            self._ecc(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            None if rows is None else int(rows[0]) + int(rows[1]),
            None if rows is None else bool(rows[2]),
            None if rows is None else bool(rows[3]),
            None if self._events is None else self._xid_errors,
            self._last_xid,
        )

    def close(self) -> None:
        """Let go of the library."""
        with contextlib.suppress(self._nvml.NVMLError):
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._events = None
            self._nvml.nvmlShutdown()

    def _ask(self, name: str, *args: Any) -> Any:
        call = getattr(self._nvml, name, None)
        try:
            return call(self._handle, *args) if call else None
        except self._nvml.NVMLError:
            return None

    def _ecc(self, kind: int) -> int | None:
        found = self._ask("nvmlDeviceGetTotalEccErrors", kind, self._nvml.NVML_AGGREGATE_ECC)
        return None if found is None else int(found)

    def _listen(self) -> Any:
        nvml = self._nvml
        events = None
        try:
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(self._handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:  # not supported: a MIG slice, some virtual devices
            with contextlib.suppress(nvml.NVMLError):
                if events is not None:
                    nvml.nvmlEventSetFree(events)
            return None
        return events

    def _hear(self) -> None:
        for xid in self._waiting():
            self._xid_errors += 1
            self._last_xid = xid

    def _waiting(self) -> Iterable[int]:
        """Numbers of the Xid errors that wait to be heard."""
        nvml = self._nvml
        if self._events is None:
            return
        for _ in range(_MOST_EVENTS):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:  # a time-out: none is waiting
                return
            if event.eventType & nvml.nvmlEventTypeXidCriticalError:
                yield int(event.eventData)
