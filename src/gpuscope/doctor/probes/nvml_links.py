"""What NVML tells of a device's links: PCIe, NVLink, and the NVLink fabric that joins many."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

Ask = Callable[..., Any]
Json = dict[str, Any]

MOST_LINKS = 18
"""NVLink ports of a device: 18 on Hopper and Blackwell (nvml.h, NVML_NVLINK_MAX_LINKS)."""

_REMOTE = {0: "gpu", 1: "npu", 2: "switch", 255: "unknown"}
_ERRORS = {"replay": 0, "recovery": 1, "crc_flit": 2, "crc_data": 3}
_FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_FABRIC_HEALTH = {0: "not_supported", 1: "healthy", 2: "unhealthy", 3: "limited_capacity"}


def pcie(ask: Ask, handle: Any) -> Json:
    """The link to the host: as it runs now, what device and slot allow, and replays counted."""
    return {
        "generation": ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "width": ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "max_generation": ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "max_width": ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "device_max_generation": ask("nvmlDeviceGetGpuMaxPcieLinkGeneration", handle),
        "speed_mbps": ask("nvmlDeviceGetPcieSpeed", handle),
        "replay_counter": ask("nvmlDeviceGetPcieReplayCounter", handle),
    }


def nvlinks(nvml: Any, ask: Ask, handle: Any) -> list[Json]:
    """One entry a port that exists, whether it is up or not."""
    found = []
    for link in range(MOST_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            continue
        remote = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link) if state else None
        bus = getattr(remote, "busId", None)
        speed = _link_field(nvml, ask, handle, link, "NVML_FI_DEV_NVLINK_GET_SPEED")
        found.append(
            {
                "link": link,
                "active": bool(state),
                "version": ask("nvmlDeviceGetNvLinkVersion", handle, link),
                "speed_mbps": speed if state else None,
                "remote_type": _REMOTE.get(ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link))
                if state
                else None,
                "remote_bus_id": bus.decode("ascii", "replace") if isinstance(bus, bytes) else bus,
                "errors": {
                    name: ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, number)
                    for name, number in _ERRORS.items()
                },
            }
        )
    return found


def _link_field(nvml: Any, ask: Ask, handle: Any, link: int, name: str) -> int | None:
    number = getattr(nvml, name, None)
    if number is None:
        return None
    values = ask("nvmlDeviceGetFieldValues", handle, [(number, link)])
    return int(values[0].value.uiVal) if values and values[0].nvmlReturn == 0 else None


def fabric(nvml: Any, ask: Ask, handle: Any) -> Json | None:
    """The NVLink fabric (devices behind NVSwitches): its state and health, None without one."""
    for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        kind = getattr(nvml, name, None)
        if kind is None:
            continue
        info = kind()
        # The binding hands its argument on as it is: a struct by value would crash the library.
        if ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info)) is not None:
            summary = getattr(info, "healthSummary", None)
            return {
                "state": _FABRIC_STATES.get(int(info.state)),
                "status": int(info.status),
                "health": None if summary is None else _FABRIC_HEALTH.get(int(summary)),
                "health_mask": int(info.healthMask),
                "clique_id": int(info.cliqueId),
            }
    return None
