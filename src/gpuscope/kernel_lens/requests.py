"""What a warp's request costs: sectors, cache lines, passes over the banks, rounds at an address.

Pure arithmetic on addresses. Everywhere `addresses` is an array [requests, lanes] of byte
addresses, `active` the lanes that take part, `size_bytes` what one lane asks for; results have one
entry per request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Addresses = NDArray[np.int64]
    Active = NDArray[np.bool_]
    Counts = NDArray[np.int64]

_NONE = np.iinfo(np.int64).max
"""Stands for "no piece" and sorts last."""


def segments(addresses: Addresses, active: Active, size_bytes: int, piece_bytes: int) -> Addresses:
    """Return the pieces (sectors, lines, words) that each lane touches.

    Returns:
        Numbers of pieces [requests, lanes x pieces per lane], `_NONE` where there is none.
    """
    first = addresses // piece_bytes
    last = (addresses + size_bytes - 1) // piece_bytes
    most = int((last - first)[active].max(initial=0)) + 1
    steps = first[..., None] + np.arange(most)
    touched = (steps <= last[..., None]) & active[..., None]
    pieces: Addresses = np.where(touched, steps, _NONE).reshape(len(addresses), -1)
    return pieces


def distinct(pieces: Addresses) -> Counts:
    """Count the distinct pieces of each row."""
    ordered = np.sort(pieces, axis=1)
    new = np.ones(ordered.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    counts: Counts = (new & (ordered != _NONE)).sum(axis=1)
    return counts


def pieces_per_request(
    addresses: Addresses, active: Active, size_bytes: int, piece_bytes: int
) -> Counts:
    """Count the distinct pieces that each request touches.

    With `piece_bytes` of a sector this is what Nsight Compute calls sectors per request (NVIDIA,
    CUDA C++ Best Practices Guide: a warp's accesses become as many 32-byte transactions as needed
    to serve all its threads).
    """
    return distinct(segments(addresses, active, size_bytes, piece_bytes))


def bytes_per_request(addresses: Addresses, active: Active, size_bytes: int) -> Counts:
    """Count the distinct bytes that each request asks for; overlapping lanes count once."""
    starts = np.sort(np.where(active, addresses, _NONE), axis=1)
    used = starts != _NONE
    room = np.full(starts.shape, size_bytes, dtype=np.int64)
    follows = used[:, 1:]
    gaps = np.where(follows, starts[:, 1:] - starts[:, :-1], size_bytes)
    room[:, :-1] = np.minimum(gaps, size_bytes)
    counts: Counts = np.where(used, room, 0).sum(axis=1)
    return counts


def ideal_pieces(addresses: Addresses, active: Active, size_bytes: int, piece_bytes: int) -> Counts:
    """Return the fewest pieces that hold the distinct bytes of each request."""
    pieces: Counts = -(-bytes_per_request(addresses, active, size_bytes) // piece_bytes)
    return pieces


def phase_lanes(lanes: int, size_bytes: int, banks: int, bank_bytes: int) -> int:
    """Return how many lanes shared memory serves together.

    One pass moves a row of all banks: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16. A warp with
    more lanes or wider accesses is served in several groups of neighbouring lanes.
    """
    return max(1, min(lanes, banks * bank_bytes // max(size_bytes, bank_bytes)))


def bank_passes(
    addresses: Addresses,
    active: Active,
    size_bytes: int,
    banks: int,
    bank_bytes: int,
    pairs_merge: bool = True,
) -> tuple[Counts, Counts, Counts]:
    """Count the passes over shared memory for each request.

    Lanes of a group that ask for distinct words of the same bank are served one after another;
    lanes that ask for the same word are served together (NVIDIA, CUDA C++ Programming Guide,
    shared memory). Where neighbouring lanes (n and n^1, or n and n^2) share their addresses
    throughout, groups of a wide access are twice as large (NVIDIA developer forum, Volta and
    later; counted on an H200: tests/data/lens).

    Args:
        addresses, active, size_bytes: see the module.
        banks, bank_bytes: shared memory is so many columns of words of so many bytes.
        pairs_merge: whether the device joins equal neighbours of wide accesses.

    Returns:
        passes, the worst group's ways (distinct words of its busiest bank), and the passes without
        conflicts (one for each group with an active lane).
    """
    groups = served_together(addresses, active, size_bytes, banks, bank_bytes, pairs_merge)
    found = [np.zeros(len(addresses), dtype=np.int64) for _ in range(3)]
    for group in np.unique(groups):
        rows = groups == group
        some = _passes(addresses[rows], active[rows], size_bytes, banks, bank_bytes, int(group))
        for whole, part in zip(found, some, strict=True):
            whole[rows] = part
    return found[0], found[1], found[2]


def served_together(
    addresses: Addresses,
    active: Active,
    size_bytes: int,
    banks: int,
    bank_bytes: int,
    pairs_merge: bool = True,
) -> Counts:
    """Return how many neighbouring lanes of each request are served as one group.

    Args:
        addresses, active, size_bytes, banks, bank_bytes, pairs_merge: see `bank_passes`.
    """
    lanes = addresses.shape[1]
    group = phase_lanes(lanes, size_bytes, banks, bank_bytes)
    groups = np.full(len(addresses), group, dtype=np.int64)
    if pairs_merge and group * 2 <= lanes and size_bytes > bank_bytes:
        paired = _paired(addresses, active, 1) | _paired(addresses, active, 2)
        groups[paired] = group * 2
    return groups


def _paired(addresses: Addresses, active: Active, distance: int) -> Active:
    """Whether each lane n of a request asks for the same as lane n ^ distance, where both ask."""
    partner = np.arange(addresses.shape[1]) ^ distance
    both = active & active[:, partner]
    same: Active = ((addresses == addresses[:, partner]) | ~both).all(axis=1)
    return same & both.any(axis=1)


def _passes(
    addresses: Addresses, active: Active, size_bytes: int, banks: int, bank_bytes: int, group: int
) -> tuple[Counts, Counts, Counts]:
    requests, lanes = addresses.shape
    passes = np.zeros(requests, dtype=np.int64)
    worst = np.zeros(requests, dtype=np.int64)
    ideal = np.zeros(requests, dtype=np.int64)
    for begin in range(0, lanes, group):
        part = slice(begin, begin + group)
        ways = _ways(addresses[:, part], active[:, part], size_bytes, banks, bank_bytes)
        passes += ways
        ideal += ways > 0
        worst = np.maximum(worst, ways)
    return passes, worst, ideal


def _ways(
    addresses: Addresses, active: Active, size_bytes: int, banks: int, bank_bytes: int
) -> Counts:
    words = np.sort(segments(addresses, active, size_bytes, bank_bytes), axis=1)
    new = words != _NONE
    new[:, 1:] &= words[:, 1:] != words[:, :-1]
    rows, columns = np.nonzero(new)
    bank = words[rows, columns] % banks
    counts = np.bincount(rows * banks + bank, minlength=len(addresses) * banks)
    most: Counts = counts.reshape(len(addresses), banks).max(axis=1).astype(np.int64)
    return most


def lanes_at_one_address(addresses: Addresses, active: Active) -> Counts:
    """Return the most lanes that meet at one address, for each request.

    Atomic operations on one address are done one after another.
    """
    ordered = np.sort(np.where(active, addresses, _NONE), axis=1)
    most = np.zeros(len(ordered), dtype=np.int64)
    run = np.zeros(len(ordered), dtype=np.int64)
    for lane in range(ordered.shape[1]):
        same = lane > 0 and ordered[:, lane] == ordered[:, lane - 1]
        run = np.where(same, run + 1, 1) * (ordered[:, lane] != _NONE)
        most = np.maximum(most, run)
    return most


def covered_bytes(starts: Addresses, sizes: Counts) -> int:
    """Count the distinct bytes that any of these intervals covers."""
    if len(starts) == 0:
        return 0
    order = np.argsort(starts, kind="stable")
    begin, end = starts[order], starts[order] + sizes[order]
    reach = np.maximum.accumulate(end)
    before = np.concatenate([begin[:1], reach[:-1]])
    return int(np.maximum(0, end - np.maximum(begin, before)).sum())
