"""The catalogue's device that a recording was made on."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import device as catalogue_device
from gpuscope.hardware import names
from gpuscope.hardware.device import Device
from gpuscope.timeline.types import RecordedDevice, Timeline

MEMORY_SHARE = (0.92, 1.005)
"""A driver reports 0.93 to 1.0 of the memory that the datasheet states (ECC, reserved regions)."""

_DECORATION = re.compile(r"\b(VF|OAM|GPU|Graphics|Generation|Edition)\b|\(.*?\)", re.IGNORECASE)


def device_of(timeline: Timeline) -> Device | None:
    """Return what the recorded devices are in the catalogue; None if unknown or of several kinds.

    A name is looked up as the driver writes it; where it is missing or says nothing ("AMD Radeon
    Graphics", a board under a code name), the only device with the same compute units and memory
    is taken.
    """
    used = {(lane.rank, lane.device) for lane in timeline.lanes if lane.kind in ("stream", "copy")}
    found: set[str] = set()
    for source in timeline.sources:
        for recorded in source.devices:
            if len(source.devices) > 1 and (source.rank, recorded.index) not in used:
                continue
            known = _identify(recorded)
            if known is None:
                return None
            found.add(known)
    return catalogue_device(found.pop()) if len(found) == 1 else None


def works_on_host(timeline: Timeline, rank: int) -> bool:
    """Whether a rank's "device" is its host's own processor: `measure --device cpu`.

    There its operators stand for device work, on lanes that are named so.
    """
    names = [
        lane.name
        for lane in timeline.lanes
        if lane.rank == rank and lane.kind in ("stream", "copy")
    ]
    return bool(names) and all(re.fullmatch(r"cpu( \d+)?", name) for name in names)


@lru_cache(maxsize=256)
def _identify(recorded: RecordedDevice) -> str | None:
    """Identifier of one recorded device."""
    for name in dict.fromkeys((recorded.name, _DECORATION.sub(" ", recorded.name).strip())):
        known = _named(name)
        if known is not None and _agrees(catalogue_device(known), recorded):
            return known
    return _by_facts(recorded)


def _named(name: str) -> str | None:
    try:
        return names.resolve(name) if name else None
    except GpuscopeError:
        return None


def _agrees(device: Device, recorded: RecordedDevice) -> bool:
    """Whether a device's memory and units do not contradict what was recorded."""
    low, high = MEMORY_SHARE
    memory = recorded.memory_bytes
    if memory is not None and not low <= memory / device.memory_bytes <= high:
        return False
    units = recorded.sm_count
    return units is None or device.compute_units is None or units == device.compute_units


def _by_facts(recorded: RecordedDevice) -> str | None:
    """The only device with these units, this memory and this generation."""
    if recorded.memory_bytes is None or recorded.sm_count is None:
        return None
    fitting = []
    for device_id in names.device_ids():
        device = catalogue_device(device_id)
        if device.compute_units != recorded.sm_count or not _agrees(device, recorded):
            continue
        if recorded.warp_size not in (None, device.warp_size):
            continue
        # ROCm reports gfx942 as 9.4: only CUDA's numbers are compared.
        capability = device.compute_capability
        if capability is not None and recorded.compute_capability not in (None, capability):
            continue
        fitting.append(device_id)
    return _one_board(fitting, recorded)


def _one_board(fitting: list[str], recorded: RecordedDevice) -> str | None:
    """The only one that fits, or the one of several forms of a board (SXM, PCIe) that is named."""
    if len(fitting) > 1:
        words = set(re.split(r"[\W_]+", recorded.name.lower())) - {""}
        forms = {"sxm": {"sxm", "sxm2", "sxm4", "sxm5", "hbm3"}, "pcie": {"pcie"}}
        for form, marks in forms.items():
            if words & marks:
                fitting = [f for f in fitting if form in f]
        if len(fitting) > 1 and recorded.memory_bytes is not None:
            memory = recorded.memory_bytes
            sizes = {f: abs(catalogue_device(f).memory_bytes - memory) for f in fitting}
            nearest = min(sizes.values())
            fitting = [f for f in fitting if sizes[f] == nearest]
    return fitting[0] if len(fitting) == 1 else None
