"""What NVML tells of one device: identity, memory, clocks, power, health, links, processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuscope.doctor.probes.nvml_links import fabric, nvlinks, pcie

Ask = Callable[..., Any]
Json = dict[str, Any]

ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
"""NVML's numbers of architectures (nvml.h, NVML_DEVICE_ARCH_*)."""

COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}

REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Bits of the clocks-event reasons (nvml.h, nvmlClocksEventReason*)."""

POLICIES = {
    "power": 0,
    "thermal": 1,
    "sync_boost": 2,
    "board_limit": 3,
    "low_utilization": 4,
    "reliability": 5,
    "total_app_clocks": 10,
    "total_base_clocks": 11,
}
"""Policies whose time NVML counts (nvml.h, NVML_PERF_POLICY_*)."""

_VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}


def device_facts(nvml: Any, ask: Ask, handle: Any, index: int) -> Json:
    """Return the facts of one device.

    Args:
        nvml: the library.
        ask: calls a function by name; None where it gives no answer.
        handle: the device's.
        index: its number as NVML counts.
    """
    return {
        "index": index,
        **_identity(ask, handle),
        **_modes(ask, handle),
        "memory": _memory(ask, handle),
        "clocks": _clocks(nvml, ask, handle),
        "clocks_event_reasons": _reasons(ask, handle),
        "violation_time_s": _violations(ask, handle),
        "power": _power(ask, handle),
        "temperature": _temperature(nvml, ask, handle),
        "fans": [
            ask("nvmlDeviceGetFanSpeed_v2", handle, fan)
            for fan in range(ask("nvmlDeviceGetNumFans", handle) or 0)
        ],
        "utilization": _utilization(ask, handle),
        "ecc": _ecc(nvml, ask, handle),
        "remapped_rows": _remapped(ask, handle),
        "retired_pages": _retired(nvml, ask, handle),
        "pcie": pcie(ask, handle),
        "nvlinks": nvlinks(nvml, ask, handle),
        "fabric": fabric(nvml, ask, handle),
        **_affinity(nvml, ask, handle),
        "gpm_support": _gpm(ask, handle),
        "processes": _processes(ask, handle),
    }


def _identity(ask: Ask, handle: Any) -> Json:
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    pci = ask("nvmlDeviceGetPciInfo_v3", handle)
    bus = getattr(pci, "busId", None)
    number = getattr(pci, "pciDeviceId", None)
    return {
        "name": ask("nvmlDeviceGetName", handle),
        "uuid": ask("nvmlDeviceGetUUID", handle),
        "bus_id": bus.decode("ascii", "replace") if isinstance(bus, bytes) else bus,
        "pci_device_id": None if number is None else f"0x{number:08x}",
        "architecture": ARCHITECTURES.get(ask("nvmlDeviceGetArchitecture", handle)),
        "compute_capability": None if capability is None else [int(c) for c in capability],
        "vbios": ask("nvmlDeviceGetVbiosVersion", handle),
        "gsp_firmware": ask("nvmlDeviceGetGspFirmwareVersion", handle),
        "virtualization": _VIRTUALIZATION.get(ask("nvmlDeviceGetVirtualizationMode", handle)),
    }


def _modes(ask: Ask, handle: Any) -> Json:
    persistence = ask("nvmlDeviceGetPersistenceMode", handle)
    mig = ask("nvmlDeviceGetMigMode", handle)
    instances, uuids = [], []
    for index in range(ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0 if mig else 0):
        instance = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if instance is not None:
            instances.append(ask("nvmlDeviceGetName", instance))
            uuids.append(ask("nvmlDeviceGetUUID", instance))
    return {
        "persistence_mode": None if persistence is None else bool(persistence),
        "compute_mode": COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode", handle)),
        "mig_mode": None if mig is None else bool(mig[0]),
        "mig_mode_pending": None if mig is None else bool(mig[1]),
        "mig_devices": instances,
        "mig_uuids": uuids,
        "performance_state": ask("nvmlDeviceGetPerformanceState", handle),
    }


def _memory(ask: Ask, handle: Any) -> Json:
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    window = ask("nvmlDeviceGetBAR1MemoryInfo", handle)
    return {
        "total_bytes": None if memory is None else int(memory.total),
        "used_bytes": None if memory is None else int(memory.used),
        "bar1_total_bytes": None if window is None else int(window.bar1Total),
        "bar1_used_bytes": None if window is None else int(window.bar1Used),
    }


def _clocks(nvml: Any, ask: Ask, handle: Any) -> Json:
    """Clocks in MHz; `application_*` and `default_application_*` only where they can be set."""
    found: Json = {}
    for name, kind in (("graphics", 0), ("sm", 1), ("memory", 2)):
        found[f"{name}_mhz"] = ask("nvmlDeviceGetClockInfo", handle, kind)
        found[f"max_{name}_mhz"] = ask("nvmlDeviceGetMaxClockInfo", handle, kind)
        found[f"application_{name}_mhz"] = ask("nvmlDeviceGetApplicationsClock", handle, kind)
        found[f"default_application_{name}_mhz"] = ask(
            "nvmlDeviceGetDefaultApplicationsClock", handle, kind
        )
        found[f"max_customer_boost_{name}_mhz"] = ask(
            "nvmlDeviceGetMaxCustomerBoostClock", handle, kind
        )
    return found


def _reasons(ask: Ask, handle: Any) -> list[str] | None:
    bits = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:  # drivers before 535 know it by its older name
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if bits is None else [name for bit, name in REASONS.items() if bits & bit]


def _violations(ask: Ask, handle: Any) -> Json:
    """Seconds that each policy held the clocks down since the driver was loaded."""
    found: Json = {}
    for name, number in POLICIES.items():
        status = ask("nvmlDeviceGetViolationStatus", handle, number)
        found[name] = None if status is None else int(status.violationTime) * 1e-9
    return found


def _power(ask: Ask, handle: Any) -> Json:
    bounds = ask("nvmlDeviceGetPowerManagementLimitConstraints", handle)

    def watts(name: str) -> float | None:
        found = ask(name, handle)
        return None if found is None else found / 1000

    return {
        "usage_w": watts("nvmlDeviceGetPowerUsage"),
        "enforced_limit_w": watts("nvmlDeviceGetEnforcedPowerLimit"),
        "limit_w": watts("nvmlDeviceGetPowerManagementLimit"),
        "default_limit_w": watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        "min_limit_w": None if bounds is None else bounds[0] / 1000,
        "max_limit_w": None if bounds is None else bounds[1] / 1000,
        "energy_j": watts("nvmlDeviceGetTotalEnergyConsumption"),
    }


def _temperature(nvml: Any, ask: Ask, handle: Any) -> Json:
    thresholds = {"shutdown": 0, "slowdown": 1, "memory_max": 2, "gpu_max": 3}
    return {
        "gpu_c": ask("nvmlDeviceGetTemperature", handle, 0),
        "memory_c": _field(nvml, ask, handle, "NVML_FI_DEV_MEMORY_TEMP"),
        **{
            f"{name}_c": ask("nvmlDeviceGetTemperatureThreshold", handle, number)
            for name, number in thresholds.items()
        },
    }


def _field(nvml: Any, ask: Ask, handle: Any, name: str) -> int | None:
    number = getattr(nvml, name, None)
    values = ask("nvmlDeviceGetFieldValues", handle, [number]) if number is not None else None
    return int(values[0].value.uiVal) if values and values[0].nvmlReturn == 0 else None


def _utilization(ask: Ask, handle: Any) -> Json:
    rates = ask("nvmlDeviceGetUtilizationRates", handle)
    return {
        "gpu_percent": None if rates is None else int(rates.gpu),
        "memory_percent": None if rates is None else int(rates.memory),
    }


def _ecc(nvml: Any, ask: Ask, handle: Any) -> Json:
    mode = ask("nvmlDeviceGetEccMode", handle)
    found: Json = {
        "mode": None if mode is None else bool(mode[0]),
        "mode_pending": None if mode is None else bool(mode[1]),
    }
    for since, counter in (("volatile", 0), ("aggregate", 1)):
        for sort, kind in (("corrected", 0), ("uncorrected", 1)):
            count = ask("nvmlDeviceGetTotalEccErrors", handle, kind, counter)
            found[f"{since}_{sort}"] = None if count is None else int(count)
    return found


def _remapped(ask: Ask, handle: Any) -> Json | None:
    rows = ask("nvmlDeviceGetRemappedRows", handle)
    if rows is None:
        return None
    spare = ask("nvmlDeviceGetRowRemapperHistogram", handle)
    names = ("max", "high", "partial", "low", "none")
    return {
        "correctable": int(rows[0]),
        "uncorrectable": int(rows[1]),
        "pending": bool(rows[2]),
        "failure": bool(rows[3]),
        "banks_by_spare_rows": None
        if spare is None
        else {name: int(getattr(spare, name)) for name in names},
    }


def _retired(nvml: Any, ask: Ask, handle: Any) -> Json | None:
    single = ask("nvmlDeviceGetRetiredPages", handle, 0)
    double = ask("nvmlDeviceGetRetiredPages", handle, 1)
    pending = ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)
    if single is None and double is None and pending is None:
        return None
    return {
        "single_bit": None if single is None else len(single),
        "double_bit": None if double is None else len(double),
        "pending": None if pending is None else bool(pending),
    }


def _affinity(nvml: Any, ask: Ask, handle: Any) -> Json:
    """The processors and memory nodes near the device, as the numbers that the system uses."""
    near = ask("nvmlDeviceGetCpuAffinity", handle, 32)
    nodes = ask("nvmlDeviceGetMemoryAffinity", handle, 4, 0)
    return {
        "numa_node": ask("nvmlDeviceGetNumaNodeId", handle),
        "cpu_affinity": _bits(near),
        "memory_affinity": _bits(nodes),
    }


def _bits(words: Any) -> list[int] | None:
    if words is None:
        return None
    return [64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _gpm(ask: Ask, handle: Any) -> bool | None:
    support = ask("nvmlGpmQueryDeviceSupport", handle)
    return None if support is None else bool(support.isSupportedDevice)


def _processes(ask: Ask, handle: Any) -> list[Json] | None:
    """Who has work on the device; numbers are those of the driver's own process namespace."""
    found: list[Json] = []
    reported = False
    for sort in ("Compute", "Graphics", "MPSCompute"):
        running = ask(f"nvmlDeviceGet{sort}RunningProcesses", handle)
        reported = reported or running is not None
        for each in running or ():
            memory = each.usedGpuMemory
            found.append(
                {
                    "pid": int(each.pid),
                    "type": sort.lower(),
                    "name": ask("nvmlSystemGetProcessName", each.pid),
                    "memory_bytes": None if memory is None else int(memory),
                }
            )
    return found if reported else None
