"""AMD devices, read by the driver's management library (Python package `amdsmi`, part of ROCm).

Names, fields and units: AMD, "AMD SMI Python API reference" (power in W, clocks in MHz, memory in
binary megabytes, energy = accumulator x resolution in microjoules; what is not supported reads
"N/A"). Written to that reference and tested against a stand-in: not run on a device yet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from gpuscope.measurement.sensors.registry import sensor_vendor
from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.measurement.sensors.visible import visible

VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""What selects devices for a process; ROCm's PyTorch follows CUDA's variable, too."""

_MIB = 1 << 20


class AmdSensor:
    """One device."""

    def __init__(self, smi: Any, handle: Any, index: int) -> None:
        self._smi = smi
        self._handle = handle
        self._closed = False
        asic = self._fields("amdsmi_get_gpu_asic_info")
        self._info = SensorInfo(
            vendor="amd",
            index=index,
            name=_word(asic.get("market_name")),
            uuid=_word(self._ask("amdsmi_get_gpu_device_uuid")),
            driver=_word(self._fields("amdsmi_get_gpu_driver_info").get("driver_version")),
        )

    @property
    def info(self) -> SensorInfo:
        """What does not change."""
        return self._info

    def read(self, *, processes: bool = False) -> Reading:
        """Read everything now; see `Reading`."""
        if self._closed:
            return Reading(time.perf_counter())
        energy_j = self._energy_j()
        at = time.perf_counter()
        power = self._fields("amdsmi_get_power_info")
        memory = self._fields("amdsmi_get_gpu_vram_usage")
        activity = self._fields("amdsmi_get_gpu_activity")
        cap_uw = _number(self._fields("amdsmi_get_power_cap_info").get("power_cap"))
        busy = _number(activity.get("gfx_activity"))
        return Reading(
            time_s=at,
            energy_j=energy_j,
            power_w=_first(power, "current_socket_power", "socket_power", "average_socket_power"),
            sm_clock_hz=self._clock_hz("GFX"),
            memory_clock_hz=self._clock_hz("MEM"),
            temperature_c=self._temperature_c(),
            utilisation=None if busy is None else busy / 100,
            memory_used_bytes=_bytes(memory.get("vram_used")),
            memory_total_bytes=_bytes(memory.get("vram_total")),
            power_limit_w=None if cap_uw is None else cap_uw * 1e-6,
            processes=self._processes() if processes else None,
        )

    def close(self) -> None:
        """Let go of the library."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(self._smi.AmdSmiException):
                self._smi.amdsmi_shut_down()

    def _ask(self, name: str, *args: Any) -> Any:
        call = getattr(self._smi, name, None)
        if call is None:
            return None
        try:
            return call(self._handle, *args)
        except self._smi.AmdSmiException:
            return None

    def _fields(self, name: str, *args: Any) -> Mapping[str, Any]:
        found = self._ask(name, *args)
        return found if isinstance(found, Mapping) else {}

    def _energy_j(self) -> float | None:
        counter = self._fields("amdsmi_get_energy_count")
        ticks = _first(counter, "energy_accumulator", "power")
        resolution_uj = _number(counter.get("counter_resolution"))
        if ticks is None or resolution_uj is None:
            return None
        return ticks * resolution_uj * 1e-6

    def _clock_hz(self, kind: str) -> float | None:
        types = getattr(self._smi, "AmdSmiClkType", None)
        if types is None:
            return None
        clock = self._fields("amdsmi_get_clock_info", getattr(types, kind))
        mhz = _first(clock, "clk", "cur_clk")
        return None if mhz is None else mhz * 1e6

    def _temperature_c(self) -> float | None:
        types = getattr(self._smi, "AmdSmiTemperatureType", None)
        metrics = getattr(self._smi, "AmdSmiTemperatureMetric", None)
        if types is None or metrics is None:
            return None
        value = _number(self._ask("amdsmi_get_temp_metric", types.HOTSPOT, metrics.CURRENT))
        if value is None:
            return None
        # Releases differ: degrees, or thousandths of a degree. No chip runs at 1000 degrees.
        return value / 1000 if value >= 1000 else value

    def _processes(self) -> tuple[ProcessUse, ...] | None:
        listed = self._ask("amdsmi_get_gpu_process_list")
        if not isinstance(listed, list):
            return None
        found = []
        for each in listed:
            if isinstance(each, Mapping) and _number(each.get("pid")) is not None:
                usage = each.get("memory_usage")
                held = _number(usage.get("vram_mem")) if isinstance(usage, Mapping) else None
                found.append(
                    ProcessUse(
                        int(each["pid"]),
                        _word(each.get("name")),
                        None if held is None else int(held),
                    )
                )
        return tuple(found)


def _number(value: Any) -> float | None:
    """A number, or None for "N/A", which stands for what is not supported."""
    return float(value) if isinstance(value, int | float) else None


def _first(fields: Mapping[str, Any], *names: str) -> float | None:
    return next((n for name in names if (n := _number(fields.get(name))) is not None), None)


def _word(value: Any) -> str:
    return value if isinstance(value, str) and value != "N/A" else ""


def _bytes(megabytes: Any) -> int | None:
    number = _number(megabytes)
    return None if number is None else int(number) * _MIB


def open_with(smi: Any, index: int) -> AmdSensor | None:
    """Open a device with a given library (the real one, or a stand-in in tests)."""
    try:
        smi.amdsmi_init()
    except smi.AmdSmiException:
        return None
    handle = None
    try:
        handles = smi.amdsmi_get_processor_handles()
        wanted = visible(index, variables=VARIABLES)
        if isinstance(wanted, int) and wanted < len(handles):
            handle = handles[wanted]
    except smi.AmdSmiException:
        handle = None
    if handle is None:
        smi.amdsmi_shut_down()
        return None
    return AmdSensor(smi, handle, index)


@sensor_vendor("amd")
def open_amd(index: int) -> AmdSensor | None:
    """Open an AMD device; None without `amdsmi`, driver or device."""
    try:
        import amdsmi
    except (ImportError, KeyError, OSError):  # the package without its library raises the latter
        return None
    return open_with(amdsmi, index)
