"""float8: products of large linear layers with operands in 8 bits, scaled by their largest value.

Twice bfloat16's rate on tensor cores (NVIDIA, "H100 Tensor Core GPU Architecture", 2022), paid for
by a pass over each operand for its largest value and one for its cast; run eagerly these passes
usually cost more than the products win, so it belongs together with compilation, and with products
of some thousands in each direction. Weights stay as they are in training (Micikevicius et al.,
"FP8 Formats for Deep Learning", 2022, arXiv:2209.05433).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit, Numerics
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["Float8"]

SMALLEST = 1024
"""Smallest size of a linear layer that is put into float8: below, casts cost more than they win."""

_MULTIPLE = 16


class Float8(Change):
    """Multiply large linear layers in float8."""

    name = "fp8"
    title = Text("float8 linear layers")
    group = "precision"
    numerics: Numerics = "fp8"
    rank = 25

    def fits(self, case: ChangeCase) -> Fit:
        """It needs large linear layers, and a device that multiplies float8."""
        if not case.device.supports("fp8"):
            name = case.device.name
            return Fit(False, Text("{name} has no float8.", name=name))
        if case.seen is None:
            return Fit(False, Text("The code is not at hand."), relevant=False)
        classes = [m.classes for m in case.seen.models]
        linear = any("Linear" in each for each in classes)
        large = [pair for m in case.seen.models for pair in m.linears if _large(*pair)]
        if not linear or not large:
            return Fit(
                False,
                Text(
                    "No linear layer of at least {smallest} by {smallest}, in multiples of 16.",
                    smallest=SMALLEST,
                ),
            )
        if any(each.get("Float8TrainingLinear") for each in classes):
            return Fit(False, Text("It is in float8 already."))
        return Fit(
            True,
            Text(
                "Linear layers of {rows} by {columns} are large enough.",
                rows=max(large)[0],
                columns=max(large)[1],
            ),
        )

    def install(self, live: Live) -> None:
        """Replace the large linear layers; weights stay the same parameters in training."""
        live.on_model(_replace)

    def price(self, case: ChangeCase) -> Text:
        """Passes over operands."""
        return Text(
            "Each operand is read for its largest value and cast, at every step: compile it, too."
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Three bits of mantissa."""
        return Text(
            "Operands keep 3 bits of mantissa (gradients 2): watch the loss over many steps."
        )


def _large(out_features: int, in_features: int) -> bool:
    return (
        min(out_features, in_features) >= SMALLEST
        and not out_features % _MULTIPLE
        and not in_features % _MULTIPLE
    )


def _replace(root: Any) -> None:
    """Put float8 layers in the place of large linear ones; the output layer stays."""
    import torch

    from gpuscope.advice.changes.transforms.float8_layers import Float8Layer, Float8StoredLayer

    for name, module in list(root.named_modules()):
        # Subclasses may do something of their own.
        if type(module) is not torch.nn.Linear or name.rpartition(".")[2] in ("lm_head", "head"):
            continue
        if not name or not _large(module.out_features, module.in_features):
            continue
        trained = module.weight.requires_grad
        owner, _, attribute = name.rpartition(".")
        with torch.no_grad():
            made = Float8Layer(module) if trained else Float8StoredLayer(module)
            setattr(root.get_submodule(owner), attribute, made)


register(Float8())
