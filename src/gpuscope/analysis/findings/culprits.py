"""Who is at fault for idle time, in words: the largest places of one cause."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.idle_spots import IdleSpot
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text, joined

LEAST_SHARE = 0.10
"""A place with less of its cause's idle time is not worth naming."""

MOST_PLACES = 2

_MEMORY = re.compile(r"^(cuda|hip|cu|mu)(Malloc|Free|HostAlloc|HostMalloc|HostFree|Mem[A-Z])")
_GARBAGE = re.compile(r"^(Python GC|gc)\b|garbage|<built-in (method|function) collect")


def spots_of(facts: Facts, cause: str) -> tuple[IdleSpot, ...]:
    """Return the places of one cause, largest first."""
    return tuple(spot for spot in facts.idle_spots if spot.cause == cause)


def named(facts: Facts, cause: str) -> Text:
    """Return " Largest: X (40 %), Y (20 %)."; "" if nothing is known."""
    spots = spots_of(facts, cause)
    total = sum(spot.time_s for spot in spots)
    parts = []
    for spot in spots[:MOST_PLACES]:
        known = spot.what and spot.what != "other places"
        if known and total > 0 and spot.time_s >= LEAST_SHARE * total:
            share = Percent(spot.time_s / total)
            parts.append(Text("{place} ({share})", place=place(spot), share=share))
    if not parts:
        return Text("")
    return Text(" Largest: {parts}.", parts=joined(parts))


def place(spot: IdleSpot) -> Text:
    """Return "cudaFree in aten::mm, train.py(12): step"."""
    inside = Text("{call} in {operator}", call=spot.what, operator=spot.within)
    return joined((inside if spot.within else spot.what, spot.where))


def memory_calls_s(spots: Iterable[IdleSpot]) -> float:
    """Return the idle seconds a step spent in calls that get or free memory."""
    return sum(spot.time_s for spot in spots if _MEMORY.search(spot.what))


def garbage_s(spots: Iterable[IdleSpot]) -> float:
    """Return the idle seconds a step spent in Python's garbage collector."""
    return sum(spot.time_s for spot in spots if _GARBAGE.search(spot.what))
