"""A JAX step in bfloat16, where its build function takes a dtype.

What a step computes in is written into its code: nothing outside can change it. A build function
with an argument `dtype` is asked for the other one, and XLA compiles that step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.doors import JaxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.jax.arguments import BuildArguments
    from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["JaxBFloat16"]

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "convolution", "attention"})


class JaxBFloat16(JaxChange):
    """Ask the build function for bfloat16."""

    name = "jax-bfloat16"
    title = Text("the step in bfloat16")
    group = "precision"
    numerics = "bf16"
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs float32 products, and an argument `dtype`."""
        if not case.device.supports("bfloat16"):
            return Fit(False, Text("{name} has no bfloat16.", name=case.device.name))
        ops = case.program.ops if case.program is not None else ()
        count = sum(
            op.name.rpartition("::")[2] in _PRODUCTS and op.inputs[0].dtype == "float32"
            for op in ops
            if op.inputs
        )
        if not count:
            return Fit(False, Text("No product is done in float32."), relevant=False)
        if case.jax is None or case.jax.defaults.get("dtype") not in ("float32", "tf32"):
            return Fit(
                False,
                Text(
                    "{count} products are done in float32, as the code says. Write: def "
                    'build(dtype="float32"): and use jnp.dtype(dtype) for weights and data; then '
                    "it is predicted.",
                    count=count,
                ),
            )
        return Fit(True, Text("{count} products are done in float32.", count=count))

    def asked(self, options: WorkloadOptions, arguments: BuildArguments) -> WorkloadOptions:
        """The function's other dtype."""
        return replace(options, dtype="bfloat16")

    def typed(self, case: ChangeCase) -> Text | None:
        """Its argument, or its default."""
        if case.jax is None:
            return None
        return Text(
            'def {function}(dtype="bfloat16"): in the file, or: gpuscope predict {name} --dtype '
            "bfloat16",
            function=case.jax.function,
            name=case.jax.name,
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Small updates vanish."""
        return Text(
            "Weights that are trained are best kept in float32 (jnp.float32), and cast in the step."
        )


register(JaxBFloat16())
