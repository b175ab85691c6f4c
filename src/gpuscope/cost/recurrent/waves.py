"""Which stream of cuDNN's recurrent layers runs what, and after what.

A sequence is cut into pieces. Forward, layer l takes piece c when layer l - 1 has ended it, while
that goes on to piece c + 1: with L layers and C pieces (C + L - 1) pieces of time pass, not C x L.
Backward likewise from the last layer to the first, and then all gradients of weights, one after the
other. Two directions of a layer run beside each other in one piece, layer after layer. Read off the
streams and starts of recorded calls (benchmarks/held_kernels_gaps.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from gpuscope.cost.types import Kernel

FIRST_STREAM = 1000
"""Streams of the library's own, far from any that a program makes."""

BESIDE_GAP_S = 1.6e-6
"""More time between two kernels of a stream where other streams are busy, too: 2.8 us instead of
1.2 us in 5,000 pairs recorded on an H200 (`validation/recordings/h200/micro/gaps.jsonl.gz`)."""

CLEARED_GAP_S = 1.2e-6
"""More time before a memset, and after it, in such a chain (2.5 and 2.3 us alone)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One layer's work on one piece of the sequence.

    Attributes:
        whole: products for all its steps at once: before them forward, after them backward.
        chain: kernels of its steps, each after the one before.
    """

    whole: tuple[Kernel, ...]
    chain: tuple[Kernel, ...]


def piece_steps(layers: int, ways: int, seq: int, batch: int, backward: bool) -> int:
    """Time steps of a piece.

    Forward a quarter of the sequence, but no more than 512 rows; backward 128 or 256 rows, but at
    least a sixteenth of the sequence. One layer alone, or two directions, are not cut.
    """
    if layers < 2 or ways > 1:
        return max(seq, 1)
    if backward:
        rows = 128 if batch <= 32 else 256
        return max(1, min(seq, max(rows // batch, ceil(seq / 16))))
    return max(1, min(ceil(seq / 4), max(512 // batch, 1)))


class _Order:
    """Kernels in the order in which the host launches them, with what each waits for."""

    def __init__(self, beside: int) -> None:
        self.gap_s = BESIDE_GAP_S if beside > 1 else 0.0
        self.made: list[Kernel] = []
        self.last: dict[int, int] = {}

    def add(self, kernels: tuple[Kernel, ...], stream: int, after: tuple[int, ...] = ()) -> int:
        """Put kernels on a stream, the first after others; returns the last one's place."""
        for i, kernel in enumerate(kernels):
            waits = after if i == 0 else ()
            gap_s = self.gap_s * (len(kernels) > 1)
            if "memset" in (kernel.kind, kernels[i - 1].kind if i else ""):
                gap_s += CLEARED_GAP_S * (0.0 if self.gap_s and kernel.kind != "memset" else 1.0)
            if stream or waits or gap_s:
                kernel = replace(kernel, stream=stream, after=waits, gap_s=gap_s)
            self.made.append(kernel)
        self.last[stream] = len(self.made) - 1
        return self.last[stream]


def forward_order(pieces: list[Piece], layers: int, ways: int) -> tuple[Kernel, ...]:
    """Forward kernels of all pieces, given layer by layer (direction by direction).

    The first product runs on the operator's stream, and so do the last layer's steps: what comes
    before the operator is over when it begins, and it has ended when its stream goes on.
    """
    count = len(pieces) // (layers * ways)
    order = _Order(layers * ways)
    ended: dict[tuple[int, int], tuple[int, ...]] = {}
    for wave in range(count + layers - 1):
        for layer in range(layers):
            cut = wave - layer
            if not 0 <= cut < count:
                continue
            before = ended.get((layer - 1, cut), ())
            ends: tuple[int, ...] = ()
            for way in reversed(range(ways)):  # the operator's own stream comes last
                piece = pieces[(layer * ways + way) * count + cut]
                last = layer == layers - 1 and way == 0
                first = not order.made
                lane = FIRST_STREAM + 2 * (layer * ways + way)
                given = order.add(piece.whole, 0 if first else lane, before or _start(order))
                stream = 0 if last else lane + 1
                place = order.add(piece.chain, stream, (given,))
                if last and ends:
                    # Both directions end together, so that the operator's stream may go on.
                    made = order.made[place]
                    near = tuple(max(end - 1, 0) for end in ends)
                    order.made[place] = replace(made, after=tuple({*made.after, *near}))
                ends = (*ends, place)
            ended[layer, cut] = ends
    return tuple(order.made)


def _start(order: _Order) -> tuple[int, ...]:
    return (0,) if order.made else ()


def backward_order(
    first: tuple[Kernel, ...], pieces: list[Piece], ends: tuple[Kernel, ...], layers: int, ways: int
) -> tuple[Kernel, ...]:
    """Backward kernels: what clears the gradients, the pieces from the last layer on, the rest."""
    count = len(pieces) // (layers * ways)
    order = _Order(layers * ways)
    order.add(first, 0)
    handed: dict[tuple[int, int], tuple[int, ...]] = {}
    for wave in range(count + layers - 1):
        for back in range(layers):
            cut = wave - back
            if not 0 <= cut < count:
                continue
            layer = layers - 1 - back
            before = handed.get((layer + 1, cut), (0,))
            places: tuple[int, ...] = ()
            for way in range(ways):
                piece = pieces[(layer * ways + way) * count + cut]
                lane = FIRST_STREAM + 2 * (layer * ways + way)
                chain = order.add(piece.chain, lane + 1, before)
                places = (*places, order.add(piece.whole, lane, (chain,)))
            handed[layer, cut] = places
    order.add(ends, 0, tuple(p for s, p in sorted(order.last.items()) if s))
    return tuple(order.made)
