"""What starts a fine-tuning plan: files by the name that `--for` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, UnknownNameError, UnsupportedError
from gpuscope.hardware import Cluster
from gpuscope.planning.frameworks import refuse_other_task

if TYPE_CHECKING:
    from gpuscope.planning.tuning.types import TuningPlan, TuningQuestion, Weighed

__all__ = ["FRAMEWORKS", "check_framework", "lacks", "written"]


@dataclass(frozen=True, slots=True)
class _Writer:
    """What starts plans with one framework.

    Attributes:
        write: the text of what was chosen for a question.
        refuse: raises UnsupportedError for devices that it cannot start.
    """

    write: Callable[[TuningQuestion, Weighed], str]
    refuse: Callable[[Cluster], None]


def _peft(question: TuningQuestion, best: Weighed) -> str:
    from gpuscope.planning.tuning.peft_script import peft_script

    return peft_script(question, best)


def _refuse_peft(cluster: Cluster) -> None:
    from gpuscope.planning.tuning.peft_script import refuse_device

    refuse_device(cluster)


FRAMEWORKS: Mapping[str, _Writer] = MappingProxyType({"peft": _Writer(_peft, _refuse_peft)})
"""What fine-tuning is written for."""


def check_framework(framework: str | None, clusters: Iterable[Cluster] = ()) -> None:
    """Refuse one that starts no fine-tuning, or none on any of these devices; None is no name.

    Raises:
        UnknownNameError: no such framework.
        UnsupportedError: it trains in full, or serves; or no device is one that it starts.
    """
    names = Text("Type one of: {names}.", names=", ".join(FRAMEWORKS))
    if framework is None:
        return
    if framework not in FRAMEWORKS:
        refuse_other_task(framework, "finetune")
        raise UnknownNameError(Text("framework"), framework, tuple(FRAMEWORKS), names)
    refused = [error for each in clusters if (error := lacks(framework, each)) is not None]
    if refused and len(refused) == len(tuple(clusters)):
        raise refused[0]


def lacks(framework: str | None, cluster: Cluster) -> UnsupportedError | None:
    """Why a framework cannot start a cluster; None where it can, or where none is named."""
    try:
        if framework is not None:
            FRAMEWORKS[framework].refuse(cluster)
    except UnsupportedError as error:
        return error
    return None


def written(plan: TuningPlan, framework: str) -> str:
    """What starts the best.

    Raises:
        UnknownNameError, UnsupportedError: as `check_framework`.
        DoesNotFitError: nothing fits, so there is nothing to start.
    """
    check_framework(framework)
    if plan.best is None:
        least = next(iter(plan.short), None)
        raise DoesNotFitError(
            Text("Nothing fits, so nothing is written for {name}.", name=framework),
            ""
            if least is None
            else Text(
                "{cluster}: {plan} is the least short: {peak} on its fullest rank of {usable}.",
                cluster=least.candidate.cluster.name,
                plan=least.candidate.words,
                peak=Bytes(least.peak_bytes),
                usable=Bytes(least.usable_bytes),
            ),
            Text("Type the same without --for: it says what would fit."),
        )
    return FRAMEWORKS[framework].write(plan.question, plan.best)
