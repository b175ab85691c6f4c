"""Which candidates are composed of what their blocks cost, so that few blocks are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuscope.errors import GpuscopeError
from gpuscope.planning.blocks import Block
from gpuscope.planning.composed import composed_s
from gpuscope.planning.held import held_bytes
from gpuscope.planning.hopes import SLACK, for_the_front
from gpuscope.planning.recut import recut
from gpuscope.planning.score import AGAIN, REACHED, Scores
from gpuscope.planning.space import refusal
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Question
from gpuscope.planning.verdicts import quick_value

__all__ = ["composed", "cut_anew", "first_of_each"]

COMPOSED = 64
"""Candidates, the best by the first score, whose step is composed of their block's price."""

SPLITS = 8
"""Different (tp, cp, ep), and choices beside them: each is a recording."""

TIE = 0.03
"""What is so much slower is no tie: 80 % intervals of some 6 %, errors correlating by 0.9."""


def composed(
    question: Question,
    found: Sequence[Candidate],
    places: Sequence[int],
    scores: Scores,
    tables: Tables,
) -> Iterator[tuple[int, float, float]]:
    """Steps composed of what blocks cost, and peaks: of the first of each cluster, then of others.

    What cannot be recorded has none, nor what only a split has that is not worth a recording.

    Args:
        question: what is asked.
        found: candidates.
        places: of those that may be simulated, the best by the first score first.
        scores: of all of `found`.
        tables: records the blocks.

    Yields:
        Place in `found`, seconds of a step, bytes of the fullest rank.
    """
    splits = set[object]()
    known = _Known(question, found, scores)
    count = 0
    for n in first_of_each(found, places, for_the_front(question)):
        plan = found[n].plan
        split = plan.tp, plan.cp, plan.ep, found[n].more
        if count == COMPOSED:
            return
        if split not in splits and (len(splits) == SPLITS or known.worse(n)):
            continue
        splits.add(split)
        try:
            block = tables.of(found[n])
        except GpuscopeError:
            continue
        count += 1
        step_s, peak = composed_s(question, found[n], block), held_bytes(question, found[n], block)
        known.add(n, step_s, peak, block)
        yield n, step_s, peak


class _Known:
    """What was composed says of a split that was not recorded.

    A block that is split over more devices reaches no more of a device's peak than one that is
    not. So its step is the first score's with the arithmetic as long as blocks were seen to take.
    """

    def __init__(self, question: Question, found: Sequence[Candidate], scores: Scores) -> None:
        self.question, self.found, self.scores = question, found, scores
        self._reached: dict[object, float] = {}
        self._best: tuple[float, int] | None = None
        self._clusters = set[str]()

    def add(self, place: int, step_s: float, peak_bytes: float, block: Block) -> None:
        """Take note of a composed candidate.

        Args:
            place: in `found`.
            step_s, peak_bytes: of its step.
            block: its own.
        """
        each = self.found[place]
        plan = each.plan
        self._clusters.add(each.cluster.name)
        # One micro-batch through all blocks and what is around them.
        passes_s = self.question.size.layers * (block.forward_s + block.backward_s)
        passes_s += block.first.both_s + block.last.both_s
        least_s = float(self.scores.least_s[place]) * plan.pp / plan.microbatches
        key = each.cluster.device.id, each.more
        self._reached[key] = max(self._reached.get(key, 0.0), least_s / passes_s)
        if peak_bytes <= each.cluster.device.memory_usable_bytes:
            value = quick_value(self.question.goal, each.cluster, step_s)
            mine = value, each.dimensions
            self._best = mine if self._best is None else min(self._best, mine)

    def worse(self, place: int) -> bool:
        """Whether a candidate of another split can neither be the best nor a simpler tie."""
        each = self.found[place]
        reached = self._reached.get((each.cluster.device.id, each.more))
        if self._best is None or reached is None or each.cluster.name not in self._clusters:
            return False
        arithmetic_s = float(self.scores.least_s[place]) * AGAIN[each.plan.recompute]
        hoped_s = float(self.scores.estimate_s[place]) + arithmetic_s * (1 / reached - 1 / REACHED)
        value, dimensions = self._best
        margin = 1 + TIE if each.dimensions < dimensions else 1.0
        return quick_value(self.question.goal, each.cluster, hoped_s * (1 - SLACK)) > value * margin


def cut_anew(
    question: Question, best: Sequence[Candidate], tables: Tables
) -> Iterator[tuple[Candidate, float]]:
    """Pipelines among the best whose stages are better cut otherwise, with their composed step."""
    refused = refusal(question)
    for each in best:
        block = tables.of(each)
        other = recut(question, each, block)
        if other is not None and refused(other) is None:
            yield other, composed_s(question, other, block)


def first_of_each(
    found: Sequence[Candidate], places: Sequence[int], most: int | None = None
) -> list[int]:
    """The first of each cluster before all others, of so many clusters at most."""
    seen: set[str] = set()
    first: list[int] = []
    others: list[int] = []
    for n in places:
        name = found[n].cluster.name
        head = name not in seen and (most is None or len(first) < most)
        (first if head else others).append(n)
        seen.add(name)
    return first + others
