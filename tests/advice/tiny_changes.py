"""Changes of the tests' own, known while a test runs, and a small build to make them to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpuscope.advice import registry
from gpuscope.advice.change import Change
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text, verbatim


class Tiny(Change):
    """A change whose parts are given."""

    group = "operators"

    def __init__(
        self,
        name: str,
        install: Callable[[Any], None] = lambda live: None,
        *,
        applies: bool = True,
        work: float = 1.0,
        numerics: Any = "exact",
        excludes: Any = (),
    ) -> None:
        self.name, self.title = name, verbatim(name)
        self._install, self._applies, self._work = install, applies, work
        self.numerics, self.excludes = numerics, frozenset(excludes)

    def fits(self, case: ChangeCase) -> Fit:
        return Fit(self._applies, Text("said so"))

    def install(self, live: Any) -> None:
        self._install(live)

    def work_factor(self, case: ChangeCase) -> float:
        return self._work


@contextmanager
def known(*changes: Change) -> Iterator[None]:
    """These changes alone are known."""
    with registry.CHANGES.replaced({c.name: c for c in changes}):
        yield


def twice(live: Any) -> None:
    """Each step is made two times."""

    def wrap(step: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> None:
            step()
            step()

        return both

    live.on_step(wrap)


def half(live: Any) -> None:
    """Forward passes under autocast."""
    import torch

    live.around_forward(lambda: torch.autocast("cuda", dtype=torch.bfloat16))


def build(batch: int = 4096) -> Callable[[], None]:
    """Four wide layers in float32, trained."""
    import torch

    layers = [torch.nn.Linear(4096, 4096) for _ in range(4)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(batch, 4096, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step
