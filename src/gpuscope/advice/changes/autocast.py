"""Autocast: products in 16 bits on tensor cores, weights and sums in float32.

`torch.autocast` picks a dtype for each operator: products in bfloat16 or float16, what needs range
or precision (losses, norms, softmax) in float32 (PyTorch, "Automatic Mixed Precision package").
bfloat16 has float32's range. float16 has not: small gradients would become 0, so the loss is
multiplied by a large factor before the backward pass and gradients are divided by it after
(Micikevicius et al., "Mixed Precision Training", ICLR 2018), which `torch.amp.GradScaler` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.step_figures import kind_s, percent, product_dtypes
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Numerics, Seen
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text, sentences

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live
    from gpuscope.run import Run

__all__ = ["HALVES", "Autocast", "ScaledAutocast", "low_precision_fit"]

HALVES = frozenset({"bf16-autocast", "fp16-autocast", "bf16-weights", "fp16-weights"})
"""Names of the changes that put a model into 16 bits: one of them at a time."""

_PRODUCT_KINDS = ("matmul", "convolution", "attention", "recurrent")


def low_precision_fit(case: ChangeCase, dtype: str) -> Fit:
    """Whether there are float32 products, and the device multiplies in `dtype`."""
    if not case.device.supports(dtype):
        name = case.device.name
        return Fit(False, Text("{name} has no {dtype}.", name=name, dtype=dtype))
    dtypes = product_dtypes(case)
    if case.program is not None and "float32" not in dtypes:
        used = ", ".join(sorted(d for d in dtypes if "float" in d)) or Text("no float")
        why = Text("Products are done in {used} already.", used=used)
        return Fit(False, why, relevant=False)
    spent_s, step_s = kind_s(case, *_PRODUCT_KINDS), case.analysis.step_s
    return Fit(
        True,
        Text(
            "Products in float32 are part of {spent} ({share} of the step), and every "
            "tensor of float32 moves twice the bytes of {dtype}.",
            spent=Seconds(spent_s),
            share=percent(spent_s, step_s),
            dtype=dtype,
        ),
    )


class Autocast(Change):
    """Run forward passes and losses under bfloat16 autocast."""

    name = "bf16-autocast"
    saves = "products"
    title = Text("bfloat16 autocast")
    group = "precision"
    numerics: Numerics = "bf16"
    excludes = HALVES - {"bf16-autocast"}
    rank = 20
    dtype = "bfloat16"

    def fits(self, case: ChangeCase) -> Fit:
        """It needs float32 products."""
        return low_precision_fit(case, self.dtype)

    def install(self, live: Live) -> None:
        """Enter autocast at the begin of a step, and leave it before the backward pass."""
        import torch

        dtype = getattr(torch, self.dtype)
        live.around_forward(lambda: torch.autocast("cuda", dtype=dtype))

    def price(self, case: ChangeCase) -> Text | None:
        """The casts of weights, at each step."""
        return Text("Weights are cast at every step; the casts are kept for the backward pass.")

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """What the analysis found to be lost to float32 products."""
        found = [f for f in run.analysis.findings if f.kind == "low_precision_unused"]
        gains = [f.max_gain_s for f in found if f.max_gain_s]
        return (0.0, max(gains)) if gains else None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The forward pass and its loss under `with torch.autocast(...)`."""
        return under_context(
            sources, seen, f'with torch.autocast("cuda", dtype=torch.{self.dtype}):'
        )


def under_context(sources: Mapping[str, str], seen: Seen, header: str) -> tuple[Edit, ...] | None:
    """The statements of the forward pass put under a context; None where they are not found.

    Args:
        sources, seen: as `Change.edits` gets them.
        header: of the `with`; may use torch.
    """
    from gpuscope.advice.source.edits import around_statements
    from gpuscope.advice.source.places import forward_of, model_at

    text = sources.get(seen.file, "")
    if not text:
        return None
    names = [model_at(text, m.site) for m in seen.models if m.parameters and m.site]
    name = next((placed.name for placed in names if placed is not None), "")
    forward = forward_of(text, seen.function, name)
    if forward is None:
        return None
    edits: list[Edit | None] = []
    if forward.last >= forward.first:
        edits.append(
            around_statements(
                seen.file, text, forward.first, forward.last, header, ("import torch",)
            )
        )
    if forward.joined and forward.backward is not None:
        edits.append(_parted(seen.file, text, forward.backward, header))
    found = [e for e in edits if e is not None]
    return tuple(found) if found and len(found) == len(edits) else None


def _parted(file: str, text: str, line: int, header: str) -> Edit | None:
    """`model(x).loss.backward()` as a loss under the context, and its backward pass after it."""
    import ast

    from gpuscope.advice.source.edits import replace_statement, source_of, statement_at

    node = statement_at(text, line)
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    func = node.value.func
    if not isinstance(func, ast.Attribute):
        return None
    given = ", ".join(
        [ast.unparse(a) for a in node.value.args]
        + [
            f"{k.arg}={ast.unparse(k.value)}" if k.arg else f"**{ast.unparse(k.value)}"
            for k in node.value.keywords
        ]
    )
    new = f"{header}\n    loss = {source_of(text, func.value)}\nloss.backward({given})\n"
    return replace_statement(file, text, line, new, ("import torch",))


class ScaledAutocast(Autocast):
    """Run forward passes under float16 autocast, with a scaled loss."""

    name = "fp16-autocast"
    saves = "products"
    title = Text("float16 autocast with loss scaling")
    numerics: Numerics = "fp16"
    excludes = HALVES - {"fp16-autocast"}
    dtype = "float16"

    def fits(self, case: ChangeCase) -> Fit:
        """It needs float32 products, and no scaler of the code's own."""
        scales = case.program is not None and any("_amp_" in op.name for op in case.program.ops)
        if scales or (case.seen is not None and case.seen.scaler):
            return Fit(False, Text("The code scales its loss itself."))
        return low_precision_fit(case, self.dtype)

    def install(self, live: Live) -> None:
        """Autocast; the loss scaled; gradients unscaled before they are clipped or used."""
        from gpuscope.advice.changes.transforms.loss_scaling import LossScaling

        super().install(live)
        LossScaling(live).install()

    def on_request(self, case: ChangeCase) -> bool:
        """Where bfloat16 does the same without a scaler."""
        return case.device.supports("bfloat16")

    def price(self, case: ChangeCase) -> Text:
        """The scaler reads a flag each step."""
        return Text(
            "The scaler reads a flag from the device at every step, so the host waits there."
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Overflow; and that bfloat16 has none."""
        overflow = Text(
            "Values above 65,504 overflow; the first steps are skipped until the scale is found."
        )
        if not case.device.supports("bfloat16"):
            return overflow
        return sentences(overflow, Text("bfloat16 does without all this here."))

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """Not written: backward pass, clipping and update change together."""
        return None


register(Autocast())
register(ScaledAutocast())
