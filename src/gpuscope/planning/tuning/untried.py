"""A fine-tuning that no candidate is, weighed beside the choice: "rank=64", "qlora"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.document.quantities import Bytes, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.space import OF_METHOD, refused
from gpuscope.planning.tuning.types import Tuned, TuningPlan
from gpuscope.planning.why import Speech
from gpuscope.program.models.rows import PACKINGS
from gpuscope.program.models.tuning import METHODS, SHARDINGS, projections_of

__all__ = ["SPEECH", "untried_tuning"]

SPEECH = Speech(
    "METHOD, fsdp, microbatch, packing, recompute, optimizer, rank, targets",
    "--why qlora,microbatch=2",
    {"recompute": "none", "optimizer": "adamw", "fsdp": "none", "packing": "none"},
    {"method": METHODS},
    values={
        "method": METHODS,
        "fsdp": SHARDINGS,
        "recompute": ("none", "full"),
        "packing": ("none", *PACKINGS),
        "optimizer": tuple(dict.fromkeys(each for of in OF_METHOD.values() for each in of)),
    },
    numbers=("microbatch", "rank"),
)


def untried_tuning(plan: TuningPlan, parts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The choice, or what is least short, with these in place of its own, by the quick score.

    Args:
        plan: the answer.
        parts: values by name; a lone word is a method.
    """
    shown = plan.best or next(iter(plan.short), None)
    if shown is None:
        return ()
    mine = shown.candidate
    words = f"{mine.cluster.name}: " + ", ".join(f"{n} {v}".strip() for n, v in parts.items())
    try:
        each = _with(plan, mine, parts)
    except GpuscopeError as error:
        return ((words, error.what),)
    if each is None:
        return ()
    question = plan.question
    passes, whole = each.passes, each.rows is None
    why = refused(question, each.cluster, each.packing, each.microbatch, passes) if whole else None
    if why is not None:
        return ((words, why),)
    own, other = (estimate(question.size, question.seq, e) for e in (mine, each))
    told = Text(
        "Not tried. By the quick score, scaled by what it was off for the choice: {step} a step, "
        "{peak} of {usable} on its fullest rank; the choice has {taken} and {held}.",
        step=Seconds(shown.step_s * other.step_s / own.step_s),
        peak=Bytes(shown.peak_bytes * other.peak_bytes / own.peak_bytes),
        usable=Bytes(shown.usable_bytes),
        taken=Seconds(shown.step_s),
        held=Bytes(shown.peak_bytes),
    )
    return ((f"{words} ({each.words})", told),)


def _with(plan: TuningPlan, mine: Tuned, parts: Mapping[str, str]) -> Tuned | None:
    """The candidate with other values; None where one is no value.

    Raises:
        GpuscopeError: products that get no adapter.
    """
    tuning, changes = mine.tuning, dict[str, object]()
    for name, value in parts.items():
        if name in ("", "method") and value in METHODS:
            tuning = replace(tuning, method=value, optimizer=OF_METHOD[value][0])
        elif name == "rank" and value.isdigit() and int(value) > 0:
            tuning = replace(tuning, rank=int(value))
        elif name == "targets":
            tuning = replace(tuning, targets=projections_of(value))
        elif name == "optimizer" and value in {each for of in OF_METHOD.values() for each in of}:
            tuning = replace(tuning, optimizer=value)
        elif name == "fsdp" and value in SHARDINGS:
            tuning = replace(tuning, sharding=value)
        elif name == "recompute" and value in ("none", "full"):
            changes["recompute"] = value == "full"
        elif name == "microbatch" and value.isdigit() and int(value) > 0:
            together = int(value) * mine.devices
            changes |= {"microbatch": int(value), "passes": plan.question.global_batch / together}
            tuning = replace(tuning, microbatches=-(-plan.question.global_batch // together))
        else:
            return None
    return replace(mine, tuning=tuning, **changes)  # type: ignore[arg-type]
