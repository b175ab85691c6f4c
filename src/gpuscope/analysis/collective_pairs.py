"""Sends and their receives, where a recording does not say who talks to whom.

A send and a receive of the same number of elements that run at one time on two ranks are a pair,
if nothing else could be the partner of either. What is ambiguous stays without a partner.
"""

from __future__ import annotations

import numpy as np

from gpuscope.timeline.types import Ints


def match_pairs(start_ns: Ints, end_ns: Ints, rank: Ints, is_send: Ints, elements: Ints) -> Ints:
    """Return the number of each call's pair, -1 where it has no certain partner.

    Args:
        start_ns, end_ns: when each call ran, on one clock.
        rank: whose it is.
        is_send: 1 for a send, 0 for a receive.
        elements: message elements, -1 if unknown.
    """
    sends, receives = np.flatnonzero(is_send == 1), np.flatnonzero(is_send == 0)
    pair = np.full(len(start_ns), -1, np.int64)
    if len(sends) == 0 or len(receives) == 0:
        return pair
    sends = sends[np.argsort(start_ns[sends], kind="stable")]
    reach = np.maximum.accumulate(end_ns[sends])
    partners: dict[int, list[int]] = {int(row): [] for row in sends}
    chosen: list[tuple[int, list[int]]] = []
    for row in receives.tolist():
        low = int(np.searchsorted(reach, start_ns[row], side="right"))
        high = int(np.searchsorted(start_ns[sends], end_ns[row], side="left"))
        near = sends[low:high]
        fits = (end_ns[near] > start_ns[row]) & (rank[near] != rank[row])
        fits &= elements[near] == elements[row]
        found = near[fits].tolist()
        chosen.append((row, found))
        for send in found:
            partners[send].append(row)
    number = 0
    for row, found in chosen:
        if len(found) == 1 and len(partners[found[0]]) == 1:
            pair[[row, found[0]]] = number
            number += 1
    return pair
