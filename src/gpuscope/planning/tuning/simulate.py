"""One way to fine-tune by the simulator: its real step captured, time, exact memory, cost."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.planning.simulate import figures, outcome, peak_of
from gpuscope.planning.steps import Steps
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed
from gpuscope.timeline.recost import Recosted
from gpuscope.timeline.recost_ranks import RecostedJob

__all__ = ["Simulator"]


class Simulator:
    """Simulates candidates."""

    def __init__(self, question: TuningQuestion) -> None:
        self.question = question
        self._steps = Steps(question.model)

    def judge(self, each: Tuned, seq: int | None = None) -> Weighed:
        """Simulate one candidate; a step of many micro-batches follows from one and from two.

        Where examples differ in length, memory is that of the longest rows, time of the usual.

        Args:
            each: what is simulated.
            seq: tokens of a sequence; None: as asked.

        Raises:
            GpuscopeError: the program cannot run on this device.
        """
        seq = seq or self.question.seq
        many, made = each.passes, min(2, each.tuning.microbatches)
        full = self._step(each, seq, made, memory=True)
        usual = full
        if each.row(seq, usual=True) != each.row(seq, usual=False):
            usual = self._step(each, seq, made, memory=False, usual=True)
        peak, usable = peak_of(full)[0], each.cluster.device.memory_usable_bytes
        step_s, low_s, high_s, energy_j = figures(usual, each.devices)
        if many > 2 and peak > usable:  # nobody runs it: its update is counted once for two of them
            step_s, low_s, high_s, energy_j = (
                figure * many / 2 for figure in (step_s, low_s, high_s, energy_j)
            )
        elif many != made:
            one = self._step(each, seq, 1, memory=False, usual=True)
            ends = zip(figures(one, each.devices), (step_s, low_s, high_s, energy_j), strict=True)
            step_s, low_s, high_s, energy_j = (a + (many - 1) * (b - a) for a, b in ends)
        quick = estimate(self.question.size, seq, each)
        return Weighed(
            candidate=each,
            scored_s=quick.step_s,
            scored_bytes=quick.peak_bytes,
            **outcome((step_s, low_s, high_s, energy_j), full, each.cluster),
        )

    def peak_bytes(self, each: Tuned, seq: int) -> int:
        """Bytes of its fullest rank alone.

        Raises:
            GpuscopeError: the program cannot run on this device.
        """
        many = min(2, each.tuning.microbatches)
        return peak_of(self._step(each, seq, many, memory=True, interval=False))[0]

    def _step(
        self,
        each: Tuned,
        seq: int,
        microbatches: int,
        *,
        memory: bool,
        interval: bool = True,
        usual: bool = False,
    ) -> Recosted | RecostedJob:
        """The step with so many micro-batches, of the longest rows or of usual ones."""
        short = replace(each, tuning=replace(each.tuning, microbatches=microbatches))
        options = short.options(seq, usual=usual)
        return self._steps.of(each.cluster, options, memory=memory, interval=interval)
