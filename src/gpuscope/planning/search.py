"""Training: candidates, their score, the best of them simulated, one chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from gpuscope.document.quantities import Bytes, Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError, MissingPackageError
from gpuscope.planning.choice import choose, front
from gpuscope.planning.composed import composed_s
from gpuscope.planning.neighbours import neighbours
from gpuscope.planning.score import Scores, score
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Judged, Plan, Question, Rejected

__all__ = ["search"]

TRIES = 2
"""Candidates that may be simulated for each one that is wanted, since some do not fit."""

COMPOSED = 64
"""Candidates, the best by the first score, whose step is composed of their block's price."""

SPLITS = 8
"""Different (tp, cp, ep) among them: each is a recording."""

OnCandidate = Callable[[int, int, Candidate], None]


def search(question: Question, on_candidate: OnCandidate | None = None) -> Plan:
    """Answer a checked question; interrupted, with the best so far.

    Args:
        question: what `question_of` gave.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        DoesNotFitError: nothing fits; says what is least short.
    """
    found, rejected = candidates(question)
    begin = time.perf_counter()
    scores = score(question, found)
    rate = len(found) / max(1e-9, time.perf_counter() - begin)
    order, out = _ordered(question, found, scores)
    rejected += out
    steps = _composed(question, found, order) if len(order) > question.simulated else {}
    order = _by_cluster(question, found, scores, order, steps)
    simulator, complete, tried = Simulator(question), True, 0
    judged: list[Judged] = []
    full: list[Judged] = []
    wanted = question.simulated
    for position in order:
        if len(judged) == wanted or tried == TRIES * wanted:
            break
        tried += 1
        try:
            if on_candidate:
                on_candidate(len(judged) + 1, wanted, found[position])
            known = steps.get(position, float(scores.estimate_s[position]))
            each = simulator.judge(found[position], known)
        except KeyboardInterrupt:
            if not judged:
                raise
            complete = False
            break
        except MissingPackageError:  # no fault of the candidate's
            raise
        except GpuscopeError as error:
            rejected.append(_out(found[position], "layout", error.what))
            continue
        if each.fits < question.certainty:
            full.append(each)
            rejected.append(_out(each.candidate, "memory", _too_full(each)))
        else:
            judged.append(each)
    if not judged:
        _nothing_fits(question, rejected)
    best, ties = choose(judged, question.goal)
    rejected += _left(found, order[tried:], scores, steps, best)
    return Plan(
        question=question,
        best=best,
        ties=ties,
        front=front(judged),
        judged=tuple(judged),
        rejected=tuple(rejected),
        candidates=len(found),
        scored_per_s=rate,
        complete=complete,
        near=neighbours(best, (*judged, *full), found, scores, steps, question.goal),
        least_s=float(scores.least_s[found.index(best.candidate)]),
    )


def _ordered(
    question: Question, found: Sequence[Candidate], scores: Scores
) -> tuple[list[int], list[Rejected]]:
    """What may be simulated, the best by the first score first; and what cannot fit at all."""
    places: list[int] = []
    out: list[Rejected] = []
    for n, each in enumerate(found):
        usable = each.cluster.device.memory_usable_bytes
        if scores.least_bytes[n] > usable:
            states = Text(
                "Parameters and optimizer states alone take {least} of a device's {usable}.",
                least=Bytes(float(scores.least_bytes[n])),
                usable=Bytes(usable),
            )
            out.append(_out(each, "memory", states))
        else:
            places.append(n)

    places.sort(key=lambda n: _rank(question, found, scores, n, float(scores.estimate_s[n])))
    return places, out


def _composed(
    question: Question, found: Sequence[Candidate], places: Sequence[int]
) -> dict[int, float]:
    """Steps composed of what blocks cost: of the first of each cluster, then of all others.

    What cannot be recorded has none.
    """
    tables, splits = Tables(question), set[tuple[int, int, int]]()
    steps: dict[int, float] = {}
    for n in _first_of_each(found, places):
        plan = found[n].plan
        split = plan.tp, plan.cp, plan.ep
        if len(steps) == COMPOSED or (len(splits) == SPLITS and split not in splits):
            continue
        splits.add(split)
        try:
            steps[n] = composed_s(question, found[n], tables.of(found[n]))
        except GpuscopeError:
            continue
    return steps


def _by_cluster(
    question: Question,
    found: Sequence[Candidate],
    scores: Scores,
    places: Sequence[int],
    steps: Mapping[int, float],
) -> list[int]:
    """The best of each cluster, then all others; those with a composed step before the rest."""

    def rank(n: int) -> tuple[object, ...]:
        seconds = steps.get(n)
        estimate = float(scores.estimate_s[n]) if seconds is None else seconds
        return seconds is None, *_rank(question, found, scores, n, estimate)

    return _first_of_each(found, sorted(places, key=rank))


def _first_of_each(found: Sequence[Candidate], places: Sequence[int]) -> list[int]:
    seen: set[str] = set()
    first: list[int] = []
    others: list[int] = []
    for n in places:
        name = found[n].cluster.name
        (others if name in seen else first).append(n)
        seen.add(name)
    return first + others


def _rank(
    question: Question, found: Sequence[Candidate], scores: Scores, n: int, seconds: float
) -> tuple[bool, float, int, int]:
    usable = found[n].cluster.device.memory_usable_bytes
    full = bool(scores.estimate_bytes[n] > usable)
    return full, _scored(question, found[n], seconds), found[n].dimensions, n


def _scored(question: Question, candidate: Candidate, seconds: float) -> float:
    """What the goal makes small, by the quick score."""
    if question.goal == "cost":
        return seconds * (candidate.cluster.price_usd_per_hour or float("inf"))
    if question.goal == "energy":
        return seconds * candidate.plan.world_size * (candidate.cluster.device.tdp_w or 0.0)
    return seconds


def _left(
    found: Sequence[Candidate],
    places: Sequence[int],
    scores: Scores,
    steps: Mapping[int, float],
    best: Judged,
) -> list[Rejected]:
    """Why what was not simulated was not."""
    out = []
    for n in places:
        least = float(scores.least_s[n])
        if least > best.high_s:
            reason = Text(
                "Its arithmetic alone takes {least} at the peak; the choice's step takes {step}.",
                least=Seconds(least),
                step=Seconds(best.step_s),
            )
            out.append(_out(found[n], "slower", reason))
        else:
            reason = Text(
                "Not simulated: the quick score, {estimate} a step, has others before it.",
                estimate=Seconds(steps.get(n, float(scores.estimate_s[n]))),
            )
            out.append(_out(found[n], "not_simulated", reason))
    return out


def _out(candidate: Candidate, kind: str, reason: str) -> Rejected:
    return Rejected(f"{candidate.cluster.name}: {candidate.words}", kind, reason)


def _too_full(judged: Judged) -> Text:
    return Text(
        "Its fullest rank takes {peak} of {usable}: {fits} likely to fit.",
        peak=Bytes(judged.peak_bytes),
        usable=Bytes(judged.usable_bytes),
        fits=Percent(judged.fits),
    )


def _nothing_fits(question: Question, rejected: Sequence[Rejected]) -> None:
    short = [each for each in rejected if each.kind == "memory"]
    why: Text | str = ""
    if short:
        why = Text("{plan}: {reason}", plan=short[-1].words, reason=short[-1].reason)
    raise DoesNotFitError(
        Text("No plan was found that fits {model}.", model=question.model),
        why,
        Text("Ask for more devices, for some with more memory, or for shorter sequences."),
    )
