"""Copies over the host link, and memsets.

A pinned copy runs at the link's rate; a pageable one is staged through a small pinned buffer by
the CPU, several times slower, and slower still where the source outgrows the CPU's cache. Small
copies to the device go with the command. Time is latency + bytes / rate; the copy occupies a copy
engine, not the multiprocessors.

How sure a staged copy is: at the fast end its source lies in the CPU's cache, as in a loop that
copies one buffer again and again (which is how it is measured); at the slow end all of it comes
from the host's memory, since the cache is shared with all that the host does between two copies, on
a virtual machine with its neighbours too. And hosts differ, unless this one's copies were measured
(`gpuscope bench`).
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.program.types import TensorSpec, row_major

_UNKNOWN_LINK = 16e9
"""Bytes/s one direction where the catalogue names no host link (PCIe 3.0 x16, the oldest here)."""

STAGED_ABOVE_BYTES = 2**20
"""Pageable copies above this size go through a staging buffer (measured on an H200's host)."""

HOST_CACHE_BYTES = 64 * 2**20
"""What the CPU stages at its cache's pace; the rest comes from the host's memory (measured there:
upwards 18 GB/s to 64 MiB, 7 to 10 GB/s from 256 MiB to 1 GiB)."""

_SHORT_SPREAD = 0.3
"""Least relative 80 % half-width of a copy that latency sets, where nobody measured it."""

_HOSTS_DIFFER = 0.41
"""Least relative 80 % half-width of a staged copy on a host whose copies nobody measured: 1 GB took
97, 133 and 148 ms on three hosts of the same kind (predicted: 137), whose points agree within 10 %
each; 16 MiB took 0.88, 0.98 and 1.05 ms, 256 MiB 25.8, 28.0 and 29.5 ms."""

FRESH_ABOVE_BYTES = 32 << 20
"""Above this size glibc asks the system for each allocation, and gives it back (as far as its
threshold grows: `M_MMAP_THRESHOLD`, mallopt(3)). Its pages come with the first write to each."""

_PAGE_BYTES = 4096
_FAULT_S, _FAULT_LOW_S, _FAULT_HIGH_S = 3.9e-6, 0.5e-6, 4.1e-6
"""A page that is written first: the fault, and clearing it. `.cpu()` of 64 MiB took 60 to 68 ms
longer on an H100's virtual host than its link and its product account for (3.7 to 4.1 us a page,
one thread writes); 0.5 us where that host's 16 threads share the pages (`host_arithmetic`)."""

_INLINE_BYTES = 2**15
"""Copies to the device up to this size go with the command itself, which is sooner (0.83 us for
1 KiB against 1.5 us the other way; 16 KiB does, 64 KiB does not)."""


def host_copy(work: Work, source: TensorSpec, target: TensorSpec) -> tuple[Kernel, ...]:
    """The copy of `source` to `target` across the host link; a cast or a gather goes before it.

    PyTorch makes both ends dense and of one type first, on the device where it can (ATen's
    Copy.cu, `copy_requires_temporaries`).
    """
    to_device = target.device == "device"
    ends = source, target
    sent = source if to_device else target
    size = float(sent.numel * sent.itemsize)
    if not size:
        return ()
    pinned = any(t.pinned for t in ends)
    before: tuple[Kernel, ...] = ()
    after: tuple[Kernel, ...] = ()
    on_device = target if to_device else source
    if source.dtype != target.dtype or not on_device.is_dense:
        from gpuscope.cost.copy.model import copy_kernel

        dense = _dense(on_device, source.dtype if to_device else target.dtype)
        if to_device:
            after = (copy_kernel(work, dense, target, hot=True),)
        else:
            before = (copy_kernel(work, source, dense),)
    moved = link_copy(work, size, "h2d" if to_device else "d2h", pinned)
    allocates = work.op.name == "aten::_to_copy" and not to_device and not pinned
    if allocates and size > FRESH_ABOVE_BYTES:
        moved = _into_fresh_pages(moved, size)
    return (*before, moved, *after)


def _into_fresh_pages(copy: Kernel, size: float) -> Kernel:
    """The same copy where the host's memory is new: the copy waits for each of its pages."""
    pages = size / _PAGE_BYTES
    return replace(
        copy,
        duration_s=copy.duration_s + pages * _FAULT_S,
        low_s=copy.low_s + pages * _FAULT_LOW_S,
        high_s=copy.high_s + pages * _FAULT_HIGH_S,
        origin="estimated",
        note=Text(
            "pageable host memory that is new: the system gives and clears each page when it is "
            "first written"
        ),
    )


def _dense(spec: TensorSpec, dtype: str) -> TensorSpec:
    return TensorSpec(spec.shape, row_major(spec.shape), dtype)


def link_copy(work: Work, size: float, way: str, pinned: bool) -> Kernel:
    """A copy of `size` bytes across the host link, "h2d" or "d2h"."""
    kind, latency, moving = _parts(work, size, way, pinned)
    duration = latency + moving
    staged = kind.endswith("pageable")
    spread = work.constants.spread(f"{kind}.scale")
    if staged and not work.constants.measured(f"{kind}.efficiency"):
        spread = max(spread, _HOSTS_DIFFER)
    if latency > moving:
        short = f"{kind}.short.scale"
        known = work.constants.known(short)
        spread = work.constants.spread(short) if known else max(spread, _SHORT_SPREAD)
    high = duration * (1 + spread)
    if staged:
        high = max(high, latency + size / (link_rate(work.device) * _from_memory(work, kind)))
    return Kernel(
        name=f"memcpy_{way}_{'pinned' if pinned else 'pageable'}",
        kind="transfer",
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1 + spread),
        high_s=high,
        read_bytes=size if way == "d2h" else 0.0,
        written_bytes=size if way == "h2d" else 0.0,
        least_bytes=size,
        grid=0,
        block=0,
        limiter="latency" if latency > moving else "link",
        memory_s=size / work.bandwidth,
        lane=f"copy_{way}",
        origin="calibrated" if work.constants.calibrated else "estimated",
        note="" if not staged else Text("pageable host memory is staged by the CPU"),
    )


def link_rate(device: Device) -> float:
    """Datasheet rate of the host link, bytes/s one direction; the oldest here if unknown."""
    link = device.host_link
    return (link.bandwidth_bytes_per_s if link is not None else None) or _UNKNOWN_LINK


def _parts(work: Work, size: float, way: str, pinned: bool) -> tuple[str, float, float]:
    """Which constants apply, the latency, and the time that the bytes take."""
    rate, get = link_rate(work.device), work.constants.value
    if way == "h2d" and size <= _INLINE_BYTES:
        kind = "transfer.h2d_inline"
        usable = rate * get(f"{kind}.efficiency")
        return kind, get(f"{kind}.latency_s"), size / usable
    # The driver copies small pageable buffers at once, larger ones piece by piece.
    staged = not pinned and size > STAGED_ABOVE_BYTES
    kind = f"transfer.{way}_{'pageable' if staged else 'pinned'}"
    share = get(f"{kind}.efficiency")
    latency = get(f"{kind}.latency_s")
    if not staged:
        return kind, latency, size / (rate * share)
    beyond = max(0.0, size - HOST_CACHE_BYTES)
    slow = _from_memory(work, kind)
    return kind, latency, (size - beyond) / (rate * share) + beyond / (rate * slow)


def _from_memory(work: Work, kind: str) -> float:
    """Share of the link's rate at which the CPU stages what is not in its cache."""
    return work.constants.value(f"{kind}.beyond.efficiency")
