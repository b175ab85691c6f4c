"""A vocabulary padded to a multiple of 64 in the product that makes the logits, and only there.

Matrix rows whose length is no multiple of 16 bytes rule out the fast kernels (NVIDIA, "Matrix
Multiplication Background User's Guide"): GPT-2's 50,257 words cost it a quarter of a step (A.
Karpathy, nanoGPT: "vocab_size 50304 for efficiency"). Here the parameters stay as they are: the
output layer multiplies with a copy of its weight that has some rows of zeros more, and the logits
of those rows are cut off again. So logits, loss, gradients and checkpoints are what they were; the
price is one copy of the weight, and in the backward pass one of the logits' gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import after_statement
from gpuscope.advice.source.places import model_at
from gpuscope.advice.types import NO_CODE, ChangeCase, Edit, Fit, Seen
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.program.types import Op, Program
from gpuscope.runtime.padded_output import (
    ALIGNED_BYTES,
    FEWEST_ROWS,
    SMALLEST,
    pad_output,
    padded_size,
)

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["PadVocabulary", "pad_output"]


class PadVocabulary(Change):
    """Multiply with a padded output weight, and cut the logits to their size again."""

    name = "pad-vocabulary"
    title = Text("logits from a padded weight")
    group = "operators"
    numerics = "reordered"
    needs_gpu = True
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an output layer, of a size that breaks the alignment of rows."""
        if case.program is None or case.seen is None:
            return NO_CODE
        odd = odd_outputs(case.program)
        if not odd:
            why = Text("Every output layer has a good size.")
            return Fit(False, why, relevant=False)
        if any(w.kind in ("fsdp1", "fully_shard", "parallelize_module") for w in case.seen.wraps):
            why = Text("The weights are sharded over devices.")
            return Fit(False, why)
        if case.program.compiled:
            why = Text("The compiler pads such products itself, where that is faster.")
            return Fit(False, why)
        size = odd[0]
        return Fit(
            True,
            Text(
                "{size} outputs are no multiple of 8: the product cannot use the fastest kernels; "
                "{padded_size} would.",
                size=Number(size, ","),
                padded_size=Number(padded_size(size), ","),
            ),
        )

    def install(self, live: Live) -> None:
        """Replace the forward pass of wide output layers of odd size."""
        live.on_model(lambda root: pad_output(root, live.at_end))

    def price(self, case: ChangeCase) -> Text | None:
        """Copies of weight and logits."""
        return Text("A padded copy of the output weight while a step runs.")

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """A call after the model stands ready."""
        found = []
        for model in seen.models:
            file = model.site.rpartition(":")[0]
            text = sources.get(file)
            place = None if text is None else model_at(text, model.site)
            if text is None or place is None:
                continue
            line = f"pad_output({place.name})  # {_why_line(model.linears)}\n"
            needs = ("from gpuscope.runtime import pad_output",)
            found.append(after_statement(file, text, place.line, line, needs))
        return tuple(e for e in found if e) or None


def _why_line(linears: tuple[tuple[int, int], ...]) -> str:
    odd = [out for out, _ in linears if out >= SMALLEST and out % 8]
    return f"{odd[0]} -> {padded_size(odd[0])} inside of the product" if odd else "good sizes"


def odd_outputs(program: Program) -> tuple[int, ...]:
    """Sizes of wide output layers (`nn.Linear`) whose logits' rows break the alignment."""
    layers = {m.path for m in program.modules if m.class_name == "Linear"}
    sizes = [
        op.outputs[0].shape[-1]
        for op in program.ops
        if op.phase == "forward" and op.module in layers and _is_odd_product(op)
    ]
    return tuple(dict.fromkeys(sizes))


def _is_odd_product(op: Op) -> bool:
    if op.name.rpartition("::")[2] not in ("mm", "addmm", "bmm") or not op.outputs:
        return False
    out = op.outputs[0]
    size = out.shape[-1]
    rows = out.numel // max(size, 1)
    odd = size >= SMALLEST and (size * out.itemsize) % ALIGNED_BYTES
    return bool(odd) and rows >= FEWEST_ROWS


register(PadVocabulary())
