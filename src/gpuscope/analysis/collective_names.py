"""One name for each collective, its message's size, and the factor of its bus bandwidth.

Definitions of message size and bus bandwidth are those of nccl-tests (doc/PERFORMANCE.md and the
`GetBw` functions in src/*.cu of github.com/NVIDIA/nccl-tests): with n ranks,

    collective       message                       bus bandwidth / algorithm bandwidth
    all_reduce       the reduced tensor            2 (n - 1) / n
    all_gather       the gathered tensor           (n - 1) / n
    reduce_scatter   the tensor before scattering  (n - 1) / n
    all_to_all       one rank's send buffer        (n - 1) / n
    gather, scatter  the gathered tensor           (n - 1) / n
    broadcast, reduce, send_recv                   1
"""

from __future__ import annotations

import re

from gpuscope.timeline.types import Collective

_SORTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_reduce", r"all_?reduce|allreduce|cross_device_reduce|two_?shot|one_?shot"),
        ("all_gather", r"all_?gather"),
        ("all_to_all", r"all_?to_?all|alltoall|a2a|dispatch|combine"),
        ("broadcast", r"broadcast|bcast"),
        ("send_recv", r"send_?recv|sendrecv"),
        ("barrier", r"barrier"),
        ("scatter", r"scatter"),
        ("gather", r"gather"),
        ("reduce", r"reduce"),
        ("send", r"send"),
        ("recv", r"recv"),
    )
)

ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter", "send", "recv"})
"""Collectives that a rank may leave before the others: their ends say nothing about clocks."""

UNEVEN = frozenset({"all_to_all", "send_recv", "gather", "scatter"})
"""Collectives whose ranks may give different sizes."""

_FACTORS = {
    "all_reduce": 2.0,
    "all_gather": 1.0,
    "reduce_scatter": 1.0,
    "all_to_all": 1.0,
    "gather": 1.0,
    "scatter": 1.0,
}

_ITEM_BYTES: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), nbytes)
    for pattern, nbytes in (
        (r"complex_?(128|double)|cdouble", 16),
        (r"complex_?(64|float)|cfloat|complex<float>", 8),
        (r"float8|fp8|e4m3|e5m2|^int8|^uint8|^char|^byte|^bool|qint8", 1),
        (r"bfloat16|bf16|float16|^half|fp16|^int16|^uint16|^short", 2),
        (r"float64|double|^int64|^uint64|^long|fp64", 8),
        (r"float32|^float$|fp32|^int$|^int32|^uint32", 4),
    )
)


def sort_of(name: str) -> str:
    """Return the collective's plain name from any spelling or kernel name; "" if none fits."""
    return next((sort for sort, pattern in _SORTS if pattern.search(name)), "")


def item_bytes(dtype: str) -> int | None:
    """Return the bytes of one element of a dtype as recordings spell it; None if unknown."""
    return next((size for pattern, size in _ITEM_BYTES if pattern.search(dtype)), None)


def message_bytes(sort: str, collective: Collective) -> int | None:
    """Return the size of a call's message as nccl-tests count it; None if not recorded."""
    size = item_bytes(collective.dtype) if collective.dtype else None
    sent, received = collective.in_elements, collective.out_elements
    elements = received if sort in ("all_gather", "gather", "recv") else sent
    elements = max(sent or 0, received or 0) if elements in (None, 0) else elements
    return size * elements if size and elements else None


def bus_factor(sort: str, ranks: int | None) -> float | None:
    """Return bus bandwidth over algorithm bandwidth; None where the group's size is unknown."""
    factor = _FACTORS.get(sort)
    if factor is None:
        return 1.0
    if ranks is None:
        return None
    return factor * (ranks - 1) / ranks if ranks > 0 else None
