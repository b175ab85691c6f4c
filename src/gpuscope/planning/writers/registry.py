"""Writers by the name of their framework: one small file each, registering itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.program.models.parallel.options import Parallelism
from gpuscope.registry import Registry

__all__ = ["ANY", "WRITERS", "Writer", "beyond_data", "refuse_more", "writer"]

Refuse = Callable[[Question, Candidate], None]


def _nothing(question: Question, candidate: Candidate) -> None:
    """What a framework that can start everything refuses."""


ANY = "any"
"""Every value of a dimension."""


def beyond_data(split: Parallelism) -> str | None:
    """The first axis over which it splits more than the data: "tp", "pp", "cp" or "ep"."""
    return next((name for name in ("tp", "pp", "cp", "ep") if getattr(split, name) > 1), None)


def refuse_more(framework: str, candidate: Candidate, can: Mapping[str, Sequence[str]]) -> None:
    """Refuse what a candidate chooses beside its layout and a framework cannot start.

    Args:
        framework: its name for a reader.
        candidate: what is to be started.
        can: values that it can start, by dimension.

    Raises:
        UnsupportedError: another value.
    """
    for name, value in candidate.more:
        if value not in can.get(name, ()) and ANY not in can.get(name, ()):
            raise UnsupportedError(
                Text("{framework} cannot start {name} {value}.", framework=framework, name=name,
                     value=value),
                "",
                Text("Write the torchrun line instead: --for torchrun"),
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Writer:
    """What starts plans with one framework.

    Attributes:
        write: the text of a plan that it can start.
        refuse: raises UnsupportedError for a candidate that it cannot start.
    """

    write: Callable[[Plan], str]
    refuse: Refuse

    def __call__(self, plan: Plan) -> str:
        """The text.

        Raises:
            UnsupportedError: the framework cannot start the plan's best.
        """
        self.refuse(plan.question, plan.best.candidate)
        return self.write(plan)


WRITERS = Registry[Writer](Text("framework"), "gpuscope.planning.writers")


def writer(
    name: str, refuse: Refuse = _nothing
) -> Callable[[Callable[[Plan], str]], Callable[[Plan], str]]:
    """Register a writer under its framework's name.

    Args:
        name: the framework's.
        refuse: raises UnsupportedError for what it cannot start, before anything is written.
    """

    def register(function: Callable[[Plan], str]) -> Callable[[Plan], str]:
        WRITERS.add(name, Writer(function, refuse))
        return function

    return register
