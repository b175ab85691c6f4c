"""One program of the corpus: a name, a family and what builds it for a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Step = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        name: "family/program".
        build: given "cuda" or "cpu", makes the model and the data there and returns one step.
        needs: packages to import first, beside torch.
    """

    name: str
    build: Callable[[str], Step]
    needs: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """What it is counted under."""
        return self.name.partition("/")[0]


class Family:
    """The programs of one family, written as functions of the device that return a step."""

    def __init__(self, name: str, needs: tuple[str, ...] = ()) -> None:
        self.name, self.needs = name, needs
        self.cases: list[Case] = []

    def add(self, name: str, build: Callable[[str], Step]) -> None:
        """One more program."""
        self.cases.append(Case(f"{self.name}/{name}", build, self.needs))

    def __call__(self, build: Callable[[str], Step]) -> Callable[[str], Step]:
        """Decorate a program of this family."""
        self.add(build.__name__.strip("_").replace("_", "-"), build)
        return build


def training(
    parameters: Iterable[Any], loss: Callable[[], Any], kind: str = "AdamW", **more: Any
) -> Step:
    """A step of training: forget the gradients, take the loss, go back, step."""
    import torch

    optimizer = getattr(torch.optim, kind)(list(parameters), **{"lr": 1e-3, **more})

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step
