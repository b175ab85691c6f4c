"""A JAX step on twice the batch, where its build function takes one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.doors import JaxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_BATCH, ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.jax.arguments import BuildArguments
    from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["JaxBatch"]


class JaxBatch(JaxChange):
    """Ask the build function for twice the batch."""

    name = "jax-larger-batch"
    title = Text("twice the batch")
    group = "memory"
    numerics = "recipe"
    rank = 1

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an argument `batch` or `batch_size`."""
        found = None if case.jax is None else case.jax.batch
        if found is None:
            return NO_BATCH
        return Fit(True, Text("The batch is {now}.", now=found[1]))

    def asked(self, options: WorkloadOptions, arguments: BuildArguments) -> WorkloadOptions:
        """Twice what it is."""
        assert arguments.batch is not None
        return replace(options, batch=2 * arguments.batch[1])

    def work_factor(self, case: ChangeCase) -> float:
        """Twice the samples."""
        return 2.0

    def typed(self, case: ChangeCase) -> Text | None:
        """The argument's default."""
        if case.jax is None or case.jax.batch is None:
            return None
        name, now = case.jax.batch
        return Text(
            "def {function}({name}={then}): in the file",
            function=case.jax.function,
            name=name,
            then=2 * now,
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Another recipe."""
        return Text("Fewer updates for the same data: the learning rate must be chosen anew.")


register(JaxBatch())
