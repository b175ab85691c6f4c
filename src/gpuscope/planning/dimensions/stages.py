"""Blocks of each pipeline stage, where the ends are heavy: the slowest rank's time is made least.

The first stage has the embedding, the last the output layer and the loss; an even cut makes the
last the slowest. The least time of the slowest rank under every rank's memory is an integer program
that needs no solver, since blocks are equal: what a rank can take in some time is one division, and
the least time in which all ranks together take every block is found by bisection. Only candidates
that would be simulated are cut anew, since it takes what their blocks cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import floor

from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, Weighed
from gpuscope.program.models.parallel.options import ParallelOptions

__all__ = ["Ends", "least_cut", "of_words", "words_of"]


_SAME = 1e-9
"""Blocks that are no difference."""


@dataclass(frozen=True, slots=True)
class Ends:
    """What the first and the last stage have besides their blocks; of one micro-batch.

    Attributes:
        first, last: seconds, or bytes.
    """

    first: float
    last: float


def least_cut(
    layers: int,
    ranks: int,
    virtual: int,
    block_s: float,
    ends_s: Ends,
    block_bytes: Sequence[float],
    ends_bytes: Ends,
    usable_bytes: float,
) -> tuple[int, ...] | None:
    """Blocks of each stage that make the slowest rank quickest; None where no cut fits.

    Among equally quick ones one whose ranks hold as equally many as can be.

    Args:
        layers: blocks of the model.
        ranks: of the pipeline; stage s is on rank s modulo these.
        virtual: stages of a rank.
        block_s: seconds of a block, all passes of a micro-batch.
        ends_s: of the ends.
        block_bytes: of a block on each rank: states, and what its micro-batches in flight keep.
        ends_bytes: of the ends.
        usable_bytes: of a rank.
    """
    more = [0.0] * ranks  # the ends' time, in blocks
    more[0] += ends_s.first / block_s
    more[-1] += ends_s.last / block_s
    held = [0.0] * ranks
    held[0] += ends_bytes.first
    held[-1] += ends_bytes.last
    room = [
        floor((usable_bytes - end) / each + _SAME)
        for end, each in zip(held, block_bytes, strict=True)
    ]

    def most(slowest: float) -> list[int]:
        """Blocks that each rank can take in so much time, and in its memory."""
        pairs = zip(more, room, strict=True)
        return [max(0, min(floor(slowest - end + _SAME), most)) for end, most in pairs]

    times = sorted({end + count for end in more for count in range(virtual, layers + 1)})
    at = bisect_left(times, True, key=lambda t: sum(most(t)) >= layers and min(most(t)) >= virtual)
    if at == len(times):
        return None
    taken = most(times[at])
    while sum(taken) > layers:
        fullest = max(range(ranks), key=lambda rank: (taken[rank], rank))
        taken[fullest] -= 1
    return tuple(
        taken[rank] // virtual + (turn < taken[rank] % virtual)
        for turn in range(virtual)
        for rank in range(ranks)
    )


def words_of(cut: Sequence[int]) -> str:
    """A cut in words: "7+14x8+7" is seven blocks, fourteen stages of eight, seven blocks."""
    runs = [(size, len(list(same))) for size, same in groupby(cut)]
    return "+".join(f"{count}x{size}" if count > 1 else str(size) for size, count in runs)


def of_words(words: str) -> tuple[int, ...]:
    """The cut that `words_of` wrote."""
    cut: list[int] = []
    for run in words.split("+"):
        count, _, size = run.rpartition("x")
        cut += [int(size)] * int(count or 1)
    return tuple(cut)


def _asked(options: ParallelOptions, value: str) -> ParallelOptions:
    return replace(options, cut=of_words(value))


def _score(weighed: Weighed, value: str, columns: Mapping[str, float]) -> Mapping[str, float]:
    """Nothing: the score takes stages to be equal; the composed step does not."""
    return {}


def _lacks(device: Device, value: str) -> Text | None:
    """Nothing: it is the model's layers that are cut."""
    return None


DIMENSIONS.add(
    "stages", Dimension(name="stages", values=("even",), asked=_asked, score=_score, lacks=_lacks)
)
