"""Every plan that the ready-made parallel programs can express, on every cluster asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Cluster
from gpuscope.planning.dimensions.registry import Choices, unlike, ways
from gpuscope.planning.types import Candidate, Question, Rejected
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import RECOMPUTE, Parallelism, ParallelOptions

__all__ = ["MICROBATCHES", "candidates", "refusal"]

MICROBATCHES = (1, 2, 4, 8, 16)
"""Sequences of a micro-batch."""

_PIPELINED = ("zero1", "none")
_SHARDINGS = ("full", "hybrid", "zero2", *_PIPELINED)
_SCHEDULES = (("1f1b", 1), ("interleaved", 2), ("interleaved", 4), ("interleaved", 8), ("zb", 1))
"""With the stages of a rank."""


def candidates(question: Question) -> tuple[list[Candidate], list[Rejected]]:
    """All plans that can be, and those that cannot with what does not divide.

    Args:
        question: what is asked; its `clusters` are gone through in order.
    """
    found: list[Candidate] = []
    out: list[Rejected] = []
    refused = refusal(question)
    for cluster in question.clusters:
        seen: set[Parallelism] = set()
        chosen, lacked = _beside(question, cluster)
        out += lacked
        if not chosen:
            continue
        for asked in _asked(question, cluster):
            try:
                plan = plan_of(question.size, question.seq, asked)
            except GpuscopeError as error:
                out.append(Rejected(f"{cluster.name}: {_words(asked)}", "layout", error.what))
                continue
            again = plan.fsdp == "zero2" and plan.microbatches == 1  # what ZeRO-1 does, too
            if plan not in seen and not again:
                seen.add(plan)
                for each in (Candidate(cluster, plan, more) for more in chosen):
                    words = f"{cluster.name}: {each.words}"
                    if (why := unlike(plan, each.more) or _cannot(question, each)) is not None:
                        out.append(Rejected(words, "layout", why))
                    elif (lacks := refused(each)) is not None:
                        out.append(Rejected(words, "framework", lacks))
                    else:
                        found.append(each)
    return found, out


def refusal(question: Question) -> Callable[[Candidate], str | None]:
    """Says why the question's framework cannot start a candidate; None where it can."""
    if question.framework is None:
        return lambda candidate: None
    from gpuscope.planning.writers import WRITERS

    refuse = WRITERS.get(question.framework).refuse

    def refused(candidate: Candidate) -> str | None:
        try:
            refuse(question, candidate)
        except GpuscopeError as error:
            return error.what
        return None

    return refused


def _cannot(question: Question, each: Candidate) -> str | None:
    """Why what a candidate chooses beside its layout cannot be together; None where it can."""
    if len(each.more) < 2:
        return None
    try:
        plan_of(question.size, question.seq, each.asked)
    except GpuscopeError as error:
        return error.what
    return None


def _beside(question: Question, cluster: Cluster) -> tuple[list[Choices], list[Rejected]]:
    """What is tried beside the layout on one cluster, and what its device lacks."""
    found: list[Choices] = []
    out: list[Rejected] = []
    for choices, why in ways(question.tries, question.size, cluster.device):
        if why is None:
            found.append(choices)
        else:
            words = ", ".join(f"{name} {value}" for name, value in choices)
            out.append(Rejected(f"{cluster.name}: {words}", "layout", why))
    return found, out


def _asked(question: Question, cluster: Cluster) -> Iterator[ParallelOptions]:
    """What is tried on one cluster; degrees are powers of two, tensor parallelism within a node."""
    world = cluster.n_devices
    for tp, pp, cp, ep in product(*_degrees(question, cluster)):
        if world % (tp * pp * cp):
            continue
        dp = world // (tp * pp * cp)
        shardings = _shardings(cluster, dp * cp, pp)
        schedules = [each for each in _SCHEDULES if each[1] * pp <= question.size.layers]
        for fsdp, (schedule, virtual), microbatch, recompute in product(
            shardings, schedules if pp > 1 else _SCHEDULES[:1], MICROBATCHES, RECOMPUTE
        ):
            if schedule == "zb" and recompute == "selective":
                continue  # PyTorch 2.13 computes a region again once; a split backward asks twice
            yield ParallelOptions(
                world=world,
                node=cluster.devices_per_node,
                tp=tp,
                pp=pp,
                cp=cp,
                ep=ep,
                fsdp=fsdp,
                schedule=schedule,
                virtual=virtual,
                microbatch=microbatch,
                recompute=recompute,
                global_batch=question.global_batch,
            )


def _shardings(cluster: Cluster, sharing: int, pp: int) -> tuple[str, ...]:
    """What so many ranks with the same part of the model may share of it; one alone the usual.

    In a pipeline parameters would be gathered for every micro-batch.
    """
    if sharing == 1:
        return ("zero1" if pp > 1 else "full",)
    if pp > 1:
        return _PIPELINED
    return tuple(each for each in _SHARDINGS if each != "hybrid" or cluster.nodes > 1)


def _degrees(question: Question, cluster: Cluster) -> tuple[list[int], ...]:
    """Degrees of tp, pp, cp and ep."""
    world, experts = cluster.n_devices, question.size.experts
    return (
        _powers(min(world, cluster.devices_per_node)),
        _powers(min(world, question.size.layers)),
        _powers(world if question.seq >= 8192 else 1),
        _powers(min(world, experts.count)) if experts else [1],
    )


def _powers(most: int) -> list[int]:
    return [2**n for n in range(most.bit_length()) if 2**n <= most]


def _words(asked: ParallelOptions) -> str:
    names = ("tp", "pp", "cp", "ep", "fsdp", "schedule", "virtual", "microbatch", "recompute")
    return ", ".join(
        f"{n} {getattr(asked, n)}" for n in names if getattr(asked, n) not in (1, "none")
    )
