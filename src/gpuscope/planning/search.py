"""Training: candidates, their score, the best of them simulated, one chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError, MissingPackageError
from gpuscope.planning.budget import Budget
from gpuscope.planning.choice import choose, front
from gpuscope.planning.composing import composed, cut_anew, first_of_each
from gpuscope.planning.dimensions.registry import DIMENSIONS
from gpuscope.planning.figures.registry import FIGURES, Measured, quick_of
from gpuscope.planning.held import held_bytes
from gpuscope.planning.hopes import for_the_front, lost
from gpuscope.planning.interrupted import by_score
from gpuscope.planning.limits import OverLimitError, broken, nothing_within, timed
from gpuscope.planning.neighbours import neighbours
from gpuscope.planning.score import Scores, score
from gpuscope.planning.shortfall import nothing_fits
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Judged, Plan, Question, Rejected
from gpuscope.planning.verdicts import against_limits, beyond, left, out, quick_value, verdict

__all__ = ["search"]

TRIES = 2
"""Candidates that may be simulated for each one that is wanted, since some do not fit."""

ROOMY = 4
"""Candidates with most room that are simulated where none of these fits."""

HOPELESS = 4.0
"""What the quick score calls so many times too large is not simulated: of 282 published runs, which
all took place, it calls one 3.4 times too large, and none more so."""

OnCandidate = Callable[[int, int, Candidate], None]


def search(question: Question, on_candidate: OnCandidate | None = None) -> Plan:
    """Answer a checked question; interrupted, with the best so far.

    Where nothing fits, what saves memory and was not asked about is tried, a dimension at a time.
    Before anything that fits was simulated, that is the best by the quick score.

    Args:
        question: what `question_of` gave.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        DoesNotFitError: nothing fits; says what is least short. Nothing keeps every limit
            (`OverLimitError`); says which is broken, or which two contradict each other.
    """
    try:
        return _searched(question, on_candidate)
    except OverLimitError:
        raise
    except DoesNotFitError as error:
        none = error
    asked = dict(question.tries)
    for dimension in DIMENSIONS:
        if dimension.lighter and dimension.name not in asked:
            tries = (*question.tries, (dimension.name, dimension.lighter))
            lighter = replace(question, tries=tries)
            if not _may_fit(lighter):
                continue
            try:
                found = _searched(lighter, on_candidate)
            except DoesNotFitError:
                continue
            return replace(found, lightened=dimension.name)
    raise none


def _may_fit(question: Question) -> bool:
    """Whether the quick score calls any candidate small enough."""
    found = candidates(question)[0]
    if not found:
        return False
    peaks = score(question, found).estimate_bytes
    usable = [each.cluster.device.memory_usable_bytes for each in found]
    return bool((peaks <= usable).any())


def _searched(question: Question, on_candidate: OnCandidate | None) -> Plan:
    """The same with what `question.tries` names.

    Raises:
        DoesNotFitError: nothing fits.
    """
    found, rejected = candidates(question)
    begin = time.perf_counter()
    scores = score(question, found)
    rate = len(found) / max(1e-9, time.perf_counter() - begin)
    order, hopeless = _ordered(question, found, scores)
    rejected += hopeless
    steps, peaks, complete = dict[int, float](), dict[int, float](), True
    try:
        if len(order) > question.simulated:
            tables = Tables(question)
            for n, step_s, peak_bytes in composed(question, found, order, scores, tables):
                steps[n], peaks[n] = step_s, peak_bytes
            quick = sorted(steps, key=steps.__getitem__)[: TRIES * question.simulated]
            for each, step_s in cut_anew(question, [found[n] for n in quick], tables):
                steps[len(found)] = step_s
                peaks[len(found)] = held_bytes(question, each, tables.of(each))
                order.append(len(found))
                found.append(each)
            scores = score(question, found)
    except KeyboardInterrupt:
        complete = False
    # What was composed is known better: a quick score of pipelines is up to half of what they hold.
    scores.estimate_bytes[[*peaks]] = [*peaks.values()]
    ranked = _by_score(question, found, scores, order, steps)
    # The others can still win; the first of each are for the front.
    order = first_of_each(found, ranked, for_the_front(question))
    done = _Simulated(question, found, scores, steps, on_candidate)
    done.complete = complete
    if complete:
        done.go_through(ranked, order)
    judged = done.judged
    rejected += done.refused
    ended = done.complete and done.cut is None
    if judged:
        best, ties = choose(judged, question.goal)
    elif ended and any(each.kind == "limit" for each in rejected):
        tried = done.against_limits()
        raise nothing_within(question.model, question.limits, tried, question.steps)
    elif ended:
        raise nothing_fits(question, rejected, found, scores)
    else:
        best = done.by_score(ranked)
        ties = (best,)
    rejected += [done.left(n, best) for n in order if n not in done.tried]
    return Plan(
        question=question,
        best=best,
        ties=ties,
        front=front(judged),
        judged=tuple(judged),
        rejected=tuple(rejected),
        candidates=len(found),
        scored_per_s=rate,
        complete=done.complete,
        near=neighbours(best, (*judged, *done.broken), found, scores, steps, question.goal)
        if judged
        else (),
        least_s=float(scores.least_s[found.index(best.candidate)]),
        cut=done.cut,
    )


class _Simulated:
    """Candidates simulated one after another.

    Attributes:
        judged, broken: those that fit within the limits, and those that do not.
        refused: those that do not or cannot run, with the reason.
        tried: places of all of them.
        complete: False where it was interrupted.
        cut: how many there are where there was no time for another; None where there was.
    """

    def __init__(
        self,
        question: Question,
        found: Sequence[Candidate],
        scores: Scores,
        steps: Mapping[int, float],
        on_candidate: OnCandidate | None,
    ) -> None:
        self.question, self.found, self.scores, self.steps = question, found, scores, steps
        self.simulator, self.on_candidate = Simulator(question, fitting=True), on_candidate
        self.judged: list[Judged] = []
        self.broken: list[Judged] = []
        self.refused: list[Rejected] = []
        self.tried: set[int] = set()
        self.complete = True
        self.cut: int | None = None
        self._budget = Budget(question.within_s)

    def go_through(self, ranked: Sequence[int], order: Sequence[int]) -> None:
        """Simulate the best, then as many as are wanted; where none fits, those with most room.

        Args:
            ranked: places of candidates, until one of them fits: it rules out most of the others.
            order: of all others.
        """
        wanted = self.question.simulated
        roomy = sorted(order, key=self._share)
        turns = (ranked[:wanted], 1), (order[: TRIES * wanted], wanted), (roomy[:ROOMY], 1)
        for places, enough in turns:
            for place in places:
                if len(self.judged) >= enough:
                    break
                if place in self.tried or self._share(place) > HOPELESS:
                    continue
                candidate = self.found[place]
                if lost(self.question, candidate, self.steps.get(place), self.judged):
                    continue
                if not self._budget.allows(candidate.plan):
                    self.cut = len(self.tried)
                    return
                try:
                    self._simulate(place)
                except KeyboardInterrupt:
                    self.tried.discard(place)
                    self.complete = False
                    return

    def by_score(self, order: Sequence[int]) -> Judged:
        """The best of those that were not simulated, by the quick score.

        Raises:
            KeyboardInterrupt: there is none.
        """
        place = next((n for n in order if n not in self.tried), None)
        if place is None:
            raise KeyboardInterrupt
        self.tried.add(place)
        peak = float(self.scores.estimate_bytes[place])
        return by_score(Judged, self.found[place], self._quick_s(place), peak)

    def _quick_s(self, place: int) -> float:
        """A step by the quick score, composed where that was done."""
        return self.steps.get(place, float(self.scores.estimate_s[place]))

    def _share(self, place: int) -> float:
        """Of its device's memory, by the quick score."""
        usable = self.found[place].cluster.device.memory_usable_bytes
        return float(self.scores.estimate_bytes[place]) / usable

    def _simulate(self, place: int) -> None:
        candidate = self.found[place]
        self.tried.add(place)
        if self.on_candidate:
            self.on_candidate(len(self.judged) + 1, self.question.simulated, candidate)
        try:
            each = self.simulator.judge(candidate, self._quick_s(place))
        except MissingPackageError:  # no fault of the candidate's
            raise
        except GpuscopeError as error:
            self.refused.append(out(candidate, "layout", error.what))
            return
        finally:
            self._budget.done(candidate.plan)
        refused = verdict(self.question, candidate, each)
        if refused is None:
            self.judged.append(each)
        else:
            self.refused.append(refused)
            if isnan(each.step_s):  # only its memory is known
                self.scores.estimate_bytes[place] = each.peak_bytes
            else:
                self.broken.append(each)

    def left(self, place: int, best: Judged) -> Rejected:
        """Why a candidate was not simulated."""
        candidate, goal = self.found[place], FIGURES.get(self.question.goal)
        taken = best.value(goal.name)
        least = quick_value(goal.name, candidate.cluster, float(self.scores.least_s[place]))
        if goal.timed and taken is not None and least > taken * best.high_s / best.step_s:
            reason = Text(
                "At the devices' peak its {figure} of a step would be {least}; the choice's is "
                "{taken}.",
                figure=goal.title,
                least=goal.shown(least),
                taken=goal.shown(taken),
            )
            return out(candidate, "slower", reason)
        peak = float(self.scores.estimate_bytes[place])
        return left(self.question, candidate, self._quick_s(place), peak)

    def against_limits(self) -> list[tuple[str, Measured]]:
        """Each candidate that may fit, and its step."""
        peaks = self.scores.estimate_bytes
        scored = ((e, self._quick_s(n), float(peaks[n])) for n, e in enumerate(self.found))
        return against_limits(scored, {each.candidate: each for each in self.broken})


def _ordered(
    question: Question, found: Sequence[Candidate], scores: Scores
) -> tuple[list[int], list[Rejected]]:
    """What may be simulated, the best by the first score first; and what cannot fit at all."""
    places: list[int] = []
    hopeless: list[Rejected] = []
    bounds = timed(question.limits)
    for n, each in enumerate(found):
        usable = each.cluster.device.memory_usable_bytes
        if scores.least_bytes[n] > usable:
            states = Text(
                "Parameters and optimizer states alone take {least} of a device's {usable}.",
                least=Bytes(float(scores.least_bytes[n])),
                usable=Bytes(usable),
            )
            hopeless.append(out(each, "memory", states))
            continue
        least = quick_of(each.cluster, float(scores.least_s[n]))
        over = broken(bounds, least, question.steps) if bounds else None
        if over is not None:
            at_peak = Text("At the devices' peak: {reason}", reason=over)
            hopeless.append(out(each, "limit", at_peak))
        else:
            places.append(n)

    places.sort(key=lambda n: _rank(question, found, scores, n, float(scores.estimate_s[n])))
    return places, hopeless


def _by_score(
    question: Question,
    found: Sequence[Candidate],
    scores: Scores,
    places: Sequence[int],
    steps: Mapping[int, float],
) -> list[int]:
    """The best first; those with a composed step before the rest."""

    def rank(n: int) -> tuple[object, ...]:
        seconds = steps.get(n)
        estimate = float(scores.estimate_s[n]) if seconds is None else seconds
        return seconds is None, *_rank(question, found, scores, n, estimate)

    return sorted(places, key=rank)


def _rank(
    question: Question, found: Sequence[Candidate], scores: Scores, n: int, seconds: float
) -> tuple[bool, float, float, int, int]:
    cluster = found[n].cluster
    full = bool(scores.estimate_bytes[n] > cluster.device.memory_usable_bytes)
    value = quick_value(question.goal, cluster, seconds)
    return full, beyond(question, cluster, seconds), value, found[n].dimensions, n
