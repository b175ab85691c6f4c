"""Ranks that attend to requests of their own and share the experts: they go in step.

A rank is a `Replica`: queue, scheduler, keys and values of its own. But each block's experts work
on the tokens of all ranks, so that an iteration begins when all begin it, and lasts as long as the
slowest rank's; a rank without work runs a token that nobody asked for (vLLM's dummy batch,
vllm/v1/engine/core.py, `DPEngineCoreProc`; SGLang's idle batch). Ranks rest when all have nothing
to do. What all-reduces of the ranks' batch sizes take on their hosts is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.serving.batch import Batch
from gpuscope.serving.iteration import IterationCost, Sums
from gpuscope.serving.replica import Replica
from gpuscope.serving.work import Work


class Lockstep:
    """Ranks of one replica.

    Args:
        ranks: with one clock from now on.
        cost: of an iteration of all.
    """

    def __init__(self, ranks: Sequence[Replica], cost: IterationCost) -> None:
        self.ranks, self.cost, self.engine = ranks, cost, ranks[0].engine
        self.work: Work = ranks[0].work
        self.record = ranks[0].record

    @property
    def now(self) -> float:
        """When the next iteration begins, of those that have something to do."""
        return max(rank.now for rank in self.ranks)

    @property
    def busy(self) -> bool:
        """Whether anything waits or is at work on any rank."""
        return any(rank.busy for rank in self.ranks)

    def take_ended(self) -> list[int]:
        """Requests that have ended since somebody asked."""
        return [each for rank in self.ranks for each in rank.take_ended()]

    def step(self, until: float) -> None:
        """One iteration of all ranks, or a stretch in which all only decode."""
        ranks, now = self.ranks, self.now
        for rank in ranks:
            rank.now = now
        if any(rank.told() for rank in ranks):
            return
        working = any(rank.working for rank in ranks)
        if not working and not any(rank.waiting for rank in ranks):
            here = [rank.comes(until) for rank in ranks]
            now = min((each.now for each, at in zip(ranks, here, strict=True) if at),
                      default=self.now)  # fmt: skip
            if not any(here):
                return
        for rank in ranks:
            rank.now = now
            rank.see(working)
        batches = [_begun(rank, until) for rank in ranks]
        if any(batch.tokens for batch in batches):
            self._iterate(batches)
        elif any(batch.decoding for batch in batches):
            self._stretch(batches, until)

    def _iterate(self, batches: Sequence[Batch]) -> None:
        """Prompts on some rank: all wait for it."""
        sums = [_sums(*each) for each in zip(self.ranks, batches, strict=True)]
        device = self.cost.together_s(sums)
        alone = min(device, self.cost.together_s([(0, 0.0, 0, n, keys) for *_, n, keys in sums]))
        took = self._took(device, batches)
        for rank, batch in zip(self.ranks, batches, strict=True):
            rank.worked(batch, took, device, alone)

    def _stretch(self, batches: Sequence[Batch], until: float) -> None:
        """All decode until something changes on any of them."""
        pairs = list(zip(self.ranks, batches, strict=True))
        at_work = [rank for rank, batch in pairs if batch.decoding]
        steps = min(rank.most_steps() for rank in at_work)
        first = self._took(self._decoded_s(batches, 1.0), batches)
        slope = (self._took(self._decoded_s(batches, steps + 1.0), batches) - first) / steps
        steps = min(rank.steps_by(until, steps, first, slope) for rank in self.ranks)
        device = steps * self._decoded_s(batches, (steps + 1) / 2)
        for rank in self.ranks:
            rank.decoded(steps, first, slope, device)

    def _took(self, device: float, batches: Sequence[Batch]) -> float:
        """An iteration, of the rank whose host is the slowest."""
        return max(self.engine.step_s(device, each.sequences, each.tokens) for each in batches)

    def _decoded_s(self, batches: Sequence[Batch], step: float) -> float:
        """Device time of that step of a stretch, counted from 1."""
        return self.cost.together_s(
            [
                (0, 0.0, 0, batch.decoding, rank.keys + batch.decoding * step)
                for rank, batch in zip(self.ranks, batches, strict=True)
            ]
        )


def _sums(rank: Replica, batch: Batch) -> Sums:
    keys = float(rank.keys + batch.decoding)
    return batch.tokens, batch.pairs, len(batch.ended), batch.decoding, keys


def _begun(rank: Replica, until: float) -> Batch:
    """What a rank works on; nothing where it has nothing that it may begin."""
    batch = rank.begin(until)
    while batch is None and (rank.working or rank.waiting):  # something was put off
        batch = rank.begin(until)
    return batch or Batch(0)
