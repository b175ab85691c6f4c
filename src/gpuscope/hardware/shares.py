"""Equal shares of a device that several processes use at once: MPS and time slicing.

Sources: NVIDIA, "Multi-Process Service" (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE gives a client a part of
the multiprocessors; memory, its bandwidth and L2 are shared without a partition; 48 clients at
most)
and "Time-Slicing GPUs in Kubernetes" (processes take turns on the whole device, each with an equal
part of the time, without a partition of memory). What a neighbour takes is not known beforehand, so
a share's times have a wide interval: from neighbours that rest to neighbours always at work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gpuscope.document.text import Text
from gpuscope.hardware.device import Device
from gpuscope.hardware.slices import Profile, unlinked

_NAME = re.compile(r"(mps|time)-([1-9]\d?)")

PACKED = (2, 3, 4, 5, 6, 7)
"""Shares of a device that models are packed onto."""

MOST = 48
"""Clients of one MPS server on a device; the same is taken for time slicing, which states none."""

SHARED_ERROR = 2.0
"""Times as wide is the error of a prediction for a share: neighbours evict, switch and queue."""

_SOURCE = {
    "mps": "NVIDIA, Multi-Process Service; equal shares, nothing measured",
    "time": "NVIDIA, Time-Slicing GPUs in Kubernetes; equal shares, pairs measured on an H200",
}
_NOTE = {
    "mps": Text(
        "One of several MPS clients with equal parts of the multiprocessors and of the bandwidth. "
        "Low: the neighbours rest. High: twice the distance, for what they evict."
    ),
    "time": Text(
        "One of several processes that take turns on the whole device. Low: the neighbours rest. "
        "High: twice the distance, for switches and what they evict. One that waits for its host "
        "loses its turn, about 2.4 ms a neighbour (measured on an H200)."
    ),
}


@dataclass(frozen=True, slots=True)
class Share:
    """One of `of` equal shares, by "mps" or "time"."""

    way: str
    of: int

    @property
    def name(self) -> str:
        """As it stands behind the device's name: "mps-3"."""
        return f"{self.way}-{self.of}"


def share_named(part: str) -> Share | None:
    """Return the share that a name behind a colon means ("mps-3", "time-2"); None for others."""
    found = _NAME.fullmatch(part.strip().lower())
    if found is None or not 2 <= int(found[2]) <= MOST:
        return None
    return Share(found[1], int(found[2]))


def share_of(device: Device, share: Share) -> Device:
    """Return what one process has of a device that several use, all of them at work.

    Rates, multiprocessors, bandwidth, memory, power and price are equal shares. With time slicing
    too: half of the time on all multiprocessors does as much as all of it on half of them, and the
    cost models count work by multiprocessor. L2 is the whole one there, and a share with MPS.
    """
    n = share.of
    shared: dict[str, Any] = {
        "memory_bytes": device.memory_bytes // n,
        "memory_usable_bytes": device.memory_usable_bytes // n,
        "memory_bandwidth_bytes_per_s": device.memory_bandwidth_bytes_per_s / n,
        "tdp_w": device.tdp_w and device.tdp_w / n,
        "idle_power_w": device.idle_power_w and device.idle_power_w / n,
        "price_usd_per_hour": device.price_usd_per_hour and device.price_usd_per_hour / n,
    }
    shared["compute_units"] = device.compute_units and max(device.compute_units // n, 1)
    if share.way == "mps":
        shared["l2_bytes"] = device.l2_bytes and device.l2_bytes // n
    changed = dict.fromkeys([name for name, value in shared.items() if value], "estimated")
    changed |= {rate: "estimated" for rate, _ in device.peaks}
    alone = unlinked(device)
    return replace(
        alone,
        id=f"{device.id}:{share.name}",
        name=f"{device.name}, one of {n} ({'MPS' if share.way == 'mps' else 'time slicing'})",
        peaks=tuple((rate, value / n) for rate, value in device.peaks),
        **shared,
        notes=(*device.notes, str(_NOTE[share.way])),
        origins=tuple((dict(alone.origins) | changed).items()),
        sources=(
            *((field, of) for field, of in device.sources if field not in changed),
            *((field, (_SOURCE[share.way],)) for field in changed if field in shared),
        ),
    )


def widened(
    device_id: str, middle_s: float, low_s: float, high_s: float, busy_s: float
) -> tuple[float, float, Text | None]:
    """Return a step's interval where its device is a share, with the words for it; as it was else.

    Args:
        device_id: of the device that was predicted on.
        middle_s, low_s, high_s: the step with every neighbour at work.
        busy_s: of it, device work: what shrinks to a share of itself where the neighbours rest.
    """
    share = share_named(device_id.partition(":")[2])
    if share is None:
        return low_s, high_s, None
    rest_s = low_s - min(busy_s, low_s) * (1 - 1 / share.of)
    return rest_s, middle_s + SHARED_ERROR * (high_s - middle_s), _NOTE[share.way]


def error_factor(device_id: str) -> float:
    """Times as wide as the models' own is the error on this device: more than 1 on a share."""
    return 1.0 if share_named(device_id.partition(":")[2]) is None else SHARED_ERROR


def note_of(device_id: str) -> Text | None:
    """What a prediction for this share takes and leaves out; None for what is no share."""
    share = share_named(device_id.partition(":")[2])
    return None if share is None else _NOTE[share.way]


def shares_of(device: Device, way: str) -> tuple[Profile, ...]:
    """The equal shares that models may be packed onto, the least first; () where there are none.

    Args:
        device: the whole.
        way: "mps" or "time".
    """
    if device.vendor != "NVIDIA":
        return ()
    return tuple(
        Profile(Share(way, n).name, Fraction(8, n), tuple(range(n)), 1 / n, of=n)
        for n in reversed(PACKED)
    )
