"""The least time that a call can take on a device, by its datasheet."""

from __future__ import annotations

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Device
from gpuscope.measurement.bench.types import CACHE, COMPUTE, LINK, MEMORY

CACHED_TIMES = 4.0
"""Of data up to this many times the last-level cache, a part may be found there when they are used
again at once: what memory can bring is then no limit."""


def bound(
    device: Device | None,
    *,
    dtype: str = "",
    flops: float | None = None,
    traffic: float | None = None,
    hot: bool = False,
) -> tuple[str, float | None]:
    """Return what bounds a call, and the least seconds it can take.

    The roofline: arithmetic at the dtype's dense peak, the least traffic at the device memory's
    bandwidth, and the longer of the two. Data that stay in the last-level cache (`hot`) are bound
    by a rate that no datasheet states: then arithmetic is the only stated limit.

    Args:
        device: None if the catalogue does not have it.
        dtype: rate name ("bf16", "tf32", "fp8"); "" if no matrix unit takes part.
        flops: arithmetic of the call.
        traffic: least bytes read and written.
        hot: the same buffers were used just before.

    Returns:
        (bound, seconds): ("", None) where nothing is known.
    """
    if device is None:
        return "", None
    compute_s = _compute_s(device, dtype, flops)
    memory_s = traffic / device.memory_bandwidth_bytes_per_s if traffic else None
    cache = device.last_level_cache_bytes or device.l2_bytes or 0
    if hot and traffic is not None and traffic <= CACHED_TIMES * cache:
        # The matrix unit bounds it if even reading from memory would take less time.
        if compute_s is not None and memory_s is not None and compute_s > memory_s:
            return COMPUTE, compute_s
        return CACHE, None
    known = [(s, name) for s, name in ((compute_s, COMPUTE), (memory_s, MEMORY)) if s is not None]
    if not known:
        return "", None
    seconds, name = max(known)
    return name, seconds


def link_bound(device: Device | None, nbytes: float, *, peer: bool = False) -> float | None:
    """Return the least seconds to bring `nbytes` one way over the link to the host, or to a peer.

    The name of what bounds it is `LINK`.
    """
    if device is None:
        return None
    rate = device.scale_up_bandwidth_bytes_per_s if peer else device.host_link_bandwidth_bytes_per_s
    return nbytes / rate if rate else None


def _compute_s(device: Device, dtype: str, flops: float | None) -> float | None:
    if not dtype or not flops:
        return None
    try:
        return flops / device.peak_flops_per_s(dtype)
    except GpuscopeError:  # no stated rate
        return None


__all__ = ["LINK", "bound", "link_bound"]
