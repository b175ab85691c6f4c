"""Who is at fault for idle time, in words: the largest places of one cause."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.idle_spots import IdleSpot
from gpuscope.analysis.wording import percent

LEAST_SHARE = 0.10
"""A place with less of its cause's idle time is not worth naming."""

MOST_PLACES = 2

_MEMORY = re.compile(r"^(cuda|hip|cu|mu)(Malloc|Free|HostAlloc|HostMalloc|HostFree|Mem[A-Z])")
_GARBAGE = re.compile(r"^(Python GC|gc)\b|garbage|<built-in (method|function) collect")


def spots_of(facts: Facts, cause: str) -> tuple[IdleSpot, ...]:
    """Return the places of one cause, largest first."""
    return tuple(spot for spot in facts.idle_spots if spot.cause == cause)


def named(facts: Facts, cause: str) -> tuple[str, str]:
    """Return " Largest: X (40 %), Y (20 %)." in English and Chinese; "" if nothing is known."""
    spots = spots_of(facts, cause)
    total = sum(spot.time_s for spot in spots)
    parts = []
    for spot in spots[:MOST_PLACES]:
        known = spot.what and spot.what != "other places"
        if known and total > 0 and spot.time_s >= LEAST_SHARE * total:
            parts.append(f"{place(spot)} ({percent(spot.time_s / total)})")
    if not parts:
        return "", ""
    return f" Largest: {', '.join(parts)}.", f"其中最大的：{'、'.join(parts)}。"


def place(spot: IdleSpot) -> str:
    """Return "cudaFree in aten::mm, train.py(12): step"."""
    within = f" in {spot.within}" if spot.within else ""
    where = f", {spot.where}" if spot.where else ""
    return f"{spot.what}{within}{where}"


def memory_calls_s(spots: Iterable[IdleSpot]) -> float:
    """Return the idle seconds a step spent in calls that get or free memory."""
    return sum(spot.time_s for spot in spots if _MEMORY.search(spot.what))


def garbage_s(spots: Iterable[IdleSpot]) -> float:
    """Return the idle seconds a step spent in Python's garbage collector."""
    return sum(spot.time_s for spot in spots if _GARBAGE.search(spot.what))
