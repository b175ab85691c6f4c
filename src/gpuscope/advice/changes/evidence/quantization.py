"""What the changes that quantise weights share: when they can be made, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.changes.evidence.decoding import model_of, rows_per_product
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["QUANTIZED", "inference_products", "quantize"]

QUANTIZED = frozenset({"int8-weights", "int4-weights", "dynamic-int8"})
"""One of them at a time."""


def inference_products(case: ChangeCase) -> tuple[Fit | None, int]:
    """Why weights cannot be quantised here (None where they can), and rows of the products."""
    if case.program is None:
        return Fit(False, Text("Needs the code."), relevant=False), 0
    model = model_of(case)
    if case.training or (model is not None and model.training):
        return Fit(False, Text("Only for inference."), relevant=False), 0
    rows = rows_per_product(case.program)
    if rows is None:
        why = Text("There are no linear layers.")
        return Fit(False, why, relevant=False), 0
    return None, rows


def quantize(live: Live, kind: str) -> None:
    """Replace the linear layers of each model when it is met.

    Args:
        live: whose models.
        kind: "Int8Weights", "Int4Weights" or "DynamicInt8".
    """
    replaced = [0]

    def edit(model: Any) -> None:
        from gpuscope.advice.changes.transforms import quantized_linears as linears

        takes = linears.int4_takes if kind == "Int4Weights" else (lambda _: True)
        replaced[0] += linears.replace_linears(model, getattr(linears, kind), takes)

    def checked(model: Any, call: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            if not replaced[0]:
                raise UnsupportedError(
                    Text(
                        "{name} has no linear layer that can be quantised so.",
                        name=type(model).__name__,
                    ),
                    Text(
                        "4 bits need bfloat16 weights on the GPU and inputs by 128; 8 bits a plain "
                        "nn.Linear."
                    ),
                    Text("Leave this change out."),
                )
            return call(*args, **kwargs)

        return called

    live.on_model(edit)
    live.on_call(checked)
