"""`gs.plan`: candidates, their score, the best of them simulated, one chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gpuscope.document.quantities import Bytes, Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError
from gpuscope.planning.choice import choose, front
from gpuscope.planning.question import question_of
from gpuscope.planning.score import Scores, score
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Candidate, Judged, Plan, Question, Rejected

__all__ = ["plan", "search"]

TRIES = 2
"""Candidates that may be simulated for each one that is wanted, since some do not fit."""

OnCandidate = Callable[[int, int, Candidate], None]


def plan(
    model: str,
    *,
    on: str | Sequence[str] = "h200",
    devices: str | int | Sequence[int] = 8,
    global_batch: int = 64,
    seq: int = 4096,
    goal: str = "time",
    tokens: float | None = None,
    task: str = "train",
    simulate: int = 8,
    on_candidate: OnCandidate | None = None,
) -> Plan:
    """What to train a built-in model on, and how.

    Args:
        model: name of a built-in decoder.
        on: devices of the catalogue, "h100,h200".
        devices: how many: 8, "1..8" (powers of two), or several.
        global_batch: sequences of a step of the whole job.
        seq: tokens of a sequence.
        goal: "time", "cost" or "energy".
        tokens: of the whole training.
        task: "train".
        simulate: how many candidates are simulated.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        UnknownNameError: no such model, device, goal or task.
        InvalidValueError: numbers that cannot be.
        DoesNotFitError: nothing fits; says what is least short.
    """
    return search(
        question_of(
            model,
            on=on,
            devices=devices,
            global_batch=global_batch,
            seq=seq,
            goal=goal,
            tokens=tokens,
            task=task,
            simulate=simulate,
        ),
        on_candidate,
    )


def search(question: Question, on_candidate: OnCandidate | None = None) -> Plan:
    """Answer a checked question; interrupted, with the best so far.

    Args:
        question: what `question_of` gave.
        on_candidate: as `plan` takes it.
    """
    found, rejected = candidates(question)
    begin = time.perf_counter()
    scores = score(question, found)
    rate = len(found) / max(1e-9, time.perf_counter() - begin)
    order, out = _ordered(question, found, scores)
    rejected += out
    simulator, complete, tried = Simulator(question), True, 0
    judged: list[Judged] = []
    wanted = question.simulated
    for position in order:
        if len(judged) == wanted or tried == TRIES * wanted:
            break
        tried += 1
        try:
            if on_candidate:
                on_candidate(len(judged) + 1, wanted, found[position])
            each = simulator.judge(found[position], float(scores.estimate_s[position]))
        except KeyboardInterrupt:
            if not judged:
                raise
            complete = False
            break
        except GpuscopeError as error:
            rejected.append(_out(found[position], "layout", error.what))
            continue
        if each.fits < question.certainty:
            rejected.append(_out(each.candidate, "memory", _too_full(each)))
        else:
            judged.append(each)
    if not judged:
        _nothing_fits(question, rejected)
    best, ties = choose(judged, question.goal)
    rejected += _left(found, order[tried:], scores, best)
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
    )


def _ordered(
    question: Question, found: Sequence[Candidate], scores: Scores
) -> tuple[list[int], list[Rejected]]:
    """What may be simulated, the best of every cluster first; and what cannot fit at all."""
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

    def rank(n: int) -> tuple[bool, float, int, int]:
        usable = found[n].cluster.device.memory_usable_bytes
        full = bool(scores.estimate_bytes[n] > usable)
        return full, _scored(question, found[n], scores, n), found[n].dimensions, n

    places.sort(key=rank)
    seen: dict[str, int] = {}
    turns = []
    for n in places:
        name = found[n].cluster.name
        seen[name] = seen.get(name, 0) + 1
        # The best of each cluster; then all others by their score.
        turns.append((min(seen[name], 2), n))
    return [n for _, n in sorted(turns, key=lambda turn: turn[0])], out


def _scored(question: Question, candidate: Candidate, scores: Scores, n: int) -> float:
    """What the goal makes small, by the quick score."""
    seconds = float(scores.estimate_s[n])
    if question.goal == "cost":
        return seconds * (candidate.cluster.price_usd_per_hour or float("inf"))
    if question.goal == "energy":
        return seconds * candidate.plan.world_size * (candidate.cluster.device.tdp_w or 0.0)
    return seconds


def _left(
    found: Sequence[Candidate], places: Sequence[int], scores: Scores, best: Judged
) -> list[Rejected]:
    """Why what was not simulated was not."""
    out = []
    for n in places:
        least, estimate = float(scores.least_s[n]), float(scores.estimate_s[n])
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
                estimate=Seconds(estimate),
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
