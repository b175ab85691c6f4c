"""Where no plan fits: what is least short, what saves most there, how many devices would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError
from gpuscope.hardware import Cluster
from gpuscope.hardware.cluster import build_cluster
from gpuscope.planning.neighbours import changed
from gpuscope.planning.score import Scores, score
from gpuscope.planning.simulate import probability_to_fit
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Candidate, Question, Rejected
from gpuscope.planning.writers import WRITERS

__all__ = ["nothing_fits"]

MOST = 4096
"""Devices up to which the least number that would do is looked for."""

FAR = 64
"""Sequences up or down within which a batch that can be split is looked for."""

_FIX = Text("Ask for more devices, for some with more memory, or for shorter sequences.")


def nothing_fits(
    question: Question, rejected: Sequence[Rejected], found: Sequence[Candidate], scores: Scores
) -> DoesNotFitError:
    """The error to raise; figures are those of the quick score.

    Args:
        question: what was asked.
        rejected: all that are out.
        found: every candidate that can be, in the order of `scores`.
        scores: of them.
    """
    what = Text("No plan was found that fits {model}.", model=question.model)
    if not found:
        return DoesNotFitError(what, *_nothing_can_be(question, rejected))
    least = min(
        range(len(found)),
        key=lambda n: scores.estimate_bytes[n] / found[n].cluster.device.memory_usable_bytes,
    )
    each = found[least]
    why = Text(
        "{cluster}: {plan} is the least short, with some {peak} on its fullest rank of {usable}.",
        cluster=each.cluster.name,
        plan=each.words,
        peak=Bytes(float(scores.estimate_bytes[least])),
        usable=Bytes(each.cluster.device.memory_usable_bytes),
    )
    saved = max(_savings(each, found, scores, least), default=None)
    if saved is not None and saved[0] > 0:
        told = Text("Most is saved there by {change}: {saved}.", change=saved[1],
                    saved=Bytes(saved[0]))  # fmt: skip
        why = Text("{first} {second}", first=why, second=told)
    return DoesNotFitError(what, why, _devices(question) or _FIX)


def _nothing_can_be(question: Question, rejected: Sequence[Rejected]) -> tuple[str, str]:
    """Why no candidate can be, and what to type; what a framework lacks is checked last of all."""
    started = [each.reason for each in rejected if each.kind == "framework"]
    if started:
        able = [
            name for name in WRITERS.names() if candidates(replace(question, framework=name))[0]
        ]
        if not able:
            return started[-1], Text("Leave out --for.")
        return started[-1], Text("These can: {names}.", names=", ".join(able))
    why = rejected[-1].reason if rejected else ""
    if question.seq > question.size.context:
        return why, Text("Type: --seq {seq}", seq=question.size.context)
    return why, _batches(question) or _FIX


def _savings(
    least: Candidate, found: Sequence[Candidate], scores: Scores, place: int
) -> Iterator[tuple[float, str]]:
    """What each of its decisions saves, against the same plan without it."""
    for n, each in enumerate(found):
        change = changed(each, least)
        if change is not None:
            yield float(scores.estimate_bytes[n] - scores.estimate_bytes[place]), change


def _devices(question: Question) -> Text | None:
    """The least number of each device that would do; None where none is found."""
    for cluster in _more(question):
        asked = replace(question, clusters=(cluster,))
        plans = candidates(asked)[0]
        if not plans:
            continue
        scores, usable = score(asked, plans), cluster.device.memory_usable_bytes
        fitting = [
            n
            for n in range(len(plans))
            if probability_to_fit(float(scores.estimate_bytes[n]), usable) >= question.certainty
        ]
        if fitting:
            first = min(fitting, key=lambda n: float(scores.estimate_s[n]))
            return Text(
                "By the quick score this would: {cluster}: {plan}. Type: --devices {devices}",
                cluster=cluster.name,
                plan=plans[first].words,
                devices=cluster.n_devices,
            )
    return None


def _more(question: Question) -> Iterator[Cluster]:
    """Doubled numbers of the largest device asked for."""
    device = max((c.device for c in question.clusters), key=lambda d: d.memory_usable_bytes)
    count = max(c.n_devices for c in question.clusters)
    count = 1 << (count - 1).bit_length()  # a power of two, as nodes are
    while count <= MOST:
        try:
            yield build_cluster(device, count)
        except GpuscopeError:
            return
        count *= 2


def _batches(question: Question) -> Text | None:
    """The nearest numbers of sequences that can be split, below and above."""
    near = []
    for sign in (-1, 1):
        for step in range(1, FAR + 1):
            batch = question.global_batch + sign * step
            if batch >= 1 and candidates(replace(question, global_batch=batch))[0]:
                near.append(batch)
                break
    if not near:
        return None
    return Text(
        "A batch of {batches} can be split. Type: --global-batch {first}",
        batches=", ".join(map(str, near)),
        first=near[0],
    )
