"""NVIDIA devices, read by the driver's management library (package `nvidia-ml-py`).

Units and meanings: NVIDIA, "NVML API Reference Guide" (power in mW, energy in mJ since the driver
was loaded, clocks in MHz, violation times in ns, temperature in degrees Celsius).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.registry import sensor_vendor
from gpuscope.measurement.sensors.types import Held, ProcessUse, Reading, SensorInfo
from gpuscope.measurement.sensors.visible import torch_uuid, visible

REASONS: tuple[tuple[int, Held], ...] = (
    (0x2, Held.APPLICATION_CLOCKS),
    (0x4, Held.POWER_CAP),
    (0x8, Held.SLOWDOWN),
    (0x10, Held.SYNC_BOOST),
    (0x20, Held.SOFTWARE_THERMAL),
    (0x40, Held.HARDWARE_THERMAL),
    (0x80, Held.POWER_BRAKE),
    (0x100, Held.DISPLAY_CLOCKS),
)
"""Bits of NVML's clocks-event reasons. Bit 0x1, an idle device, holds no work back."""

_POLICIES = (("power", "NVML_PERF_POLICY_POWER"), ("thermal", "NVML_PERF_POLICY_THERMAL"))


class NvidiaSensor:
    """One device, or one MIG instance of a device."""

    def __init__(self, nvml: Any, handle: Any, index: int) -> None:
        self._nvml = nvml
        self._handle = handle
        self._absent: set[str] = set()
        self._closed = False
        self._slice = bool(self._ask("nvmlDeviceIsMigDeviceHandle", handle))
        parent = self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        self._board = parent if self._slice and parent is not None else handle
        self._info = SensorInfo(
            vendor="nvidia",
            index=index,
            name=_text(self._ask("nvmlDeviceGetName", handle)),
            uuid=_text(self._ask("nvmlDeviceGetUUID", handle)),
            driver=_text(self._ask("nvmlSystemGetDriverVersion")),
            slice=self._slice,
            notes=(
                Text("A MIG slice: power and energy belong to the whole device and are not read."),
            )
            if self._slice
            else (),
        )

    @property
    def info(self) -> SensorInfo:
        """What does not change."""
        return self._info

    def read(self, *, processes: bool = False) -> Reading:
        """Read everything now; see `Reading`."""
        if self._closed:
            return Reading(time.perf_counter())
        board, ask = self._board, self._ask
        whole = not self._slice
        nvml = self._nvml
        energy_mj = ask("nvmlDeviceGetTotalEnergyConsumption", board) if whole else None
        at = time.perf_counter()  # the energy is what the time must belong to
        memory = ask("nvmlDeviceGetMemoryInfo", self._handle)
        rates = ask("nvmlDeviceGetUtilizationRates", self._handle) if whole else None
        return Reading(
            time_s=at,
            energy_j=_scaled(energy_mj, 1e-3),
            power_w=_scaled(ask("nvmlDeviceGetPowerUsage", board), 1e-3) if whole else None,
            sm_clock_hz=_scaled(ask("nvmlDeviceGetClockInfo", board, nvml.NVML_CLOCK_SM), 1e6),
            memory_clock_hz=_scaled(ask("nvmlDeviceGetClockInfo", board, nvml.NVML_CLOCK_MEM), 1e6),
            temperature_c=_scaled(
                ask("nvmlDeviceGetTemperature", board, nvml.NVML_TEMPERATURE_GPU), 1.0
            ),
            utilisation=None if rates is None else rates.gpu / 100,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            throttle_reasons=self._reasons(),
            throttled_s=self._throttled(),
            power_limit_w=_scaled(ask("nvmlDeviceGetEnforcedPowerLimit", board), 1e-3)
            if whole
            else None,
            pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", board),
            pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", board),
            processes=self._processes() if processes else None,
        )

    def close(self) -> None:
        """Let go of the library."""
        if not self._closed:
            self._closed = True
            self._ask("nvmlShutdown")

    def _ask(self, name: str, *args: Any) -> Any:
        """Call a function of the library; None where this device or driver does not answer.

        What is not supported is not asked again: a refusal can be as slow as an answer.
        """
        key = f"{name}{args[1:]}"
        if key in self._absent:
            return None
        call: Callable[..., Any] | None = getattr(self._nvml, name, None)
        if call is None:
            return None
        try:
            return call(*args)
        except self._nvml.NVMLError as error:
            lasting = (
                self._nvml.NVML_ERROR_NOT_SUPPORTED,
                self._nvml.NVML_ERROR_NO_PERMISSION,
                self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                self._nvml.NVML_ERROR_INVALID_ARGUMENT,
            )
            if error.value in lasting:
                self._absent.add(key)
            return None

    def _reasons(self) -> tuple[str, ...] | None:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._board)
        if bits is None:  # drivers before 535 know it by its older name
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._board)
        if bits is None:
            return None
        return tuple(name.value for bit, name in REASONS if bits & bit)

    def _throttled(self) -> dict[str, float] | None:
        found = {}
        for name, policy in _POLICIES:
            number = getattr(self._nvml, policy, None)
            status = self._ask("nvmlDeviceGetViolationStatus", self._board, number)
            if status is not None:
                found[name] = int(status.violationTime) * 1e-9
        return found or None

    def _processes(self) -> tuple[ProcessUse, ...] | None:
        running = self._ask("nvmlDeviceGetComputeRunningProcesses", self._handle)
        if running is None:
            return None
        return tuple(
            ProcessUse(
                int(each.pid),
                _text(self._ask("nvmlSystemGetProcessName", each.pid)),
                None if each.usedGpuMemory is None else int(each.usedGpuMemory),
            )
            for each in running
        )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor


def _handle(nvml: Any, wanted: int | str) -> Any:
    """The handle of a physical index, or of an identifier or its beginning; None if absent."""
    if isinstance(wanted, int):
        return nvml.nvmlDeviceGetHandleByIndex(wanted)
    try:
        return nvml.nvmlDeviceGetHandleByUUID(wanted)
    except nvml.NVMLError:
        pass
    matches = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(wanted):
            matches.append(handle)
    return matches[0] if len(matches) == 1 else None


def open_with(nvml: Any, index: int) -> NvidiaSensor | None:
    """Open a device with a given library (the real one, or a stand-in in tests)."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver, or one that is too old
        return None
    handle = None
    try:
        wanted = visible(index)
        if wanted is not None:
            uuid = torch_uuid(index) if isinstance(wanted, int) else None
            handle = _handle(nvml, uuid) if uuid else None
            handle = _handle(nvml, wanted) if handle is None else handle
    except nvml.NVMLError:
        handle = None
    if handle is None:
        nvml.nvmlShutdown()
        return None
    return NvidiaSensor(nvml, handle, index)


@sensor_vendor("nvidia")
def open_nvidia(index: int) -> NvidiaSensor | None:
    """Open an NVIDIA device; None without `nvidia-ml-py`, driver or device."""
    try:
        import pynvml
    except ImportError:
        return None
    return open_with(pynvml, index)
