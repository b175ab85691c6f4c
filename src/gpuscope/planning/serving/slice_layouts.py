"""Which slices can lie side by side on a device, and which sets of them do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product

from gpuscope.hardware.slices import Profile

__all__ = ["Counts", "laid", "least_sets", "side_by_side", "together"]

Size = int | Fraction
Counts = tuple[int, ...]
"""Slices of each profile."""


def side_by_side(profiles: Sequence[Profile], counts: Sequence[int]) -> bool:
    """Whether one device can hold so many slices of each profile."""
    taken = [(each, count) for each, count in zip(profiles, counts, strict=True) if count]
    if any(each.of for each, _ in taken):
        return len(taken) == 1 and taken[0][1] <= taken[0][0].of
    sized = sorted(
        (each for each, count in zip(profiles, counts, strict=True) for _ in range(count)),
        key=lambda each: (-each.eighths, len(each.starts)),
    )

    def fits(number: int, taken: int) -> bool:
        if number == len(sized):
            return True
        each = sized[number]
        wide = (1 << int(each.eighths)) - 1
        return any(
            not taken & (wide << start) and fits(number + 1, taken | wide << start)
            for start in each.starts
        )

    return fits(0, 0)


def least_sets(
    rate: float, rooms: Sequence[float], profiles: Sequence[Profile], devices: int
) -> Iterator[Counts]:
    """Sets of slices that keep up with a model, and do not without any of them."""

    def grow(number: int, chosen: Counts, served: float, eighths: Size) -> Iterator[Counts]:
        if served >= rate:
            least = min(r for r, n in zip(rooms, chosen, strict=False) if n)
            if served - least < rate:
                yield (*chosen, *(0 for _ in range(len(profiles) - len(chosen))))
            return
        if number == len(profiles):
            return
        each, room = profiles[number], rooms[number]
        most = min(len(each.starts) * devices, int((8 * devices - eighths) // each.eighths))
        for count in range(most + 1 if room else 1):
            yield from grow(
                number + 1, (*chosen, count), served + count * room, eighths + count * each.eighths
            )
            if served + (count - 1) * room >= rate:
                break

    yield from grow(0, (), 0.0, 0)


def together(
    sets: Sequence[Sequence[Counts]], profiles: Sequence[Profile], devices: int
) -> Iterator[tuple[Counts, ...]]:
    """One set of each model, as far as their memory goes."""

    def eighths(counts: Counts) -> Size:
        return sum((n * p.eighths for n, p in zip(counts, profiles, strict=True)), Fraction())

    def grow(number: int, left: Size) -> Iterator[tuple[Counts, ...]]:
        if number == len(sets):
            yield ()
            return
        for counts in sets[number]:
            rest = left - eighths(counts)
            if rest >= 0:
                yield from ((counts, *more) for more in grow(number + 1, rest))

    yield from grow(0, 8 * devices)


@lru_cache(maxsize=100_000)
def laid(profiles: tuple[Profile, ...], counts: Counts, devices: int) -> tuple[Counts, ...] | None:
    """The slices of each device, or None where they cannot lie on so many."""
    if devices == 1:
        return (counts,) if side_by_side(profiles, counts) else None
    # The fullest first device leaves least to the others.
    for first in sorted(product(*(range(n + 1) for n in counts)), key=sum, reverse=True):
        if any(first) and side_by_side(profiles, first):
            left = tuple(a - b for a, b in zip(counts, first, strict=True))
            rest = laid(profiles, left, devices - 1)
            if rest is not None:
                return (first, *rest)
    return None
