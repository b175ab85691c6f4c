"""A vocabulary padded to a multiple of 64 in the product that makes the logits, and only there.

Matrix rows whose length is no multiple of 16 bytes rule out the fast kernels (NVIDIA, "Matrix
Multiplication Background User's Guide"): GPT-2's 50,257 words cost it a quarter of a step (A.
Karpathy, nanoGPT: "vocab_size 50304 for efficiency"). Here the parameters stay as they are: the
output layer multiplies with a copy of its weight that has some rows of zeros more, and the logits
of those rows are cut off again. So logits, loss, gradients and checkpoints are what they were; the
price is one copy of the weight, and in the backward pass one of the logits' gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.places import model_at
from gpuscope.advice.registry import register
from gpuscope.advice.source import after_statement
from gpuscope.advice.types import NO_CODE, Case, Edit, Fit, Seen
from gpuscope.explain.types import Words
from gpuscope.program.types import Op, Program

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["PadVocabulary", "pad_output", "padded_size"]

_MULTIPLE = 64
_SMALLEST = 4096
"""Outputs narrower than this are no vocabulary, and their products no large part of a step."""
_FEWEST_ROWS = 128
"""With fewer rows the product reads its weight once, whatever its shape, and a copy costs more."""
_ALIGNED_BYTES = 16


class PadVocabulary(Change):
    """Multiply with a padded output weight, and cut the logits to their size again."""

    name = "pad-vocabulary"
    title = Words("logits from a padded weight", "输出层权重补齐（词表对齐）")
    group = "operators"
    numerics = "reordered"
    needs_gpu = True
    rank = 30

    def fits(self, case: Case) -> Fit:
        """It needs an output layer, of a size that breaks the alignment of rows."""
        if case.program is None or case.seen is None:
            return NO_CODE
        odd = odd_outputs(case.program)
        if not odd:
            why = Words("Every output layer has a good size.", "输出层的尺寸都合适。")
            return Fit(False, why, relevant=False)
        if any(w.kind in ("fsdp1", "fully_shard", "parallelize_module") for w in case.seen.wraps):
            why = Words("The weights are sharded over devices.", "权重分片在多个设备上。")
            return Fit(False, why)
        if case.program.compiled:
            why = Words(
                "The compiler pads such products itself, where that is faster.",
                "编译器会在更快时自行补齐这类乘法。",
            )
            return Fit(False, why)
        size = odd[0]
        return Fit(
            True,
            Words(
                f"{size:,} outputs are no multiple of 8: the product cannot use the fastest"
                f" kernels; {padded_size(size):,} would.",
                f"输出数 {size:,} 不是 8 的倍数，用不上最快的内核；{padded_size(size):,} 就可以。",
            ),
        )

    def install(self, live: Live) -> None:
        """Replace the forward pass of wide output layers of odd size."""
        live.on_model(lambda root: pad_output(root, live.at_end))

    def price(self, case: Case) -> Words | None:
        """Copies of weight and logits."""
        return Words(
            "A padded copy of the output weight while a step runs.",
            "一步之内多一份补齐的输出层权重。",
        )

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
            needs = ("from gpuscope.advice.changes.pad_vocabulary import pad_output",)
            found.append(after_statement(file, text, place.line, line, needs))
        return tuple(e for e in found if e) or None


def _why_line(linears: tuple[tuple[int, int], ...]) -> str:
    odd = [out for out, _ in linears if out >= _SMALLEST and out % 8]
    return f"{odd[0]} -> {padded_size(odd[0])} inside of the product" if odd else "good sizes"


def padded_size(size: int) -> int:
    """The next multiple of 64."""
    return -(-size // _MULTIPLE) * _MULTIPLE


def odd_outputs(program: Program) -> tuple[int, ...]:
    """Sizes of wide output layers (`nn.Linear`) whose logits' rows break the alignment."""
    layers = {m.path for m in program.modules if m.class_name == "Linear"}
    sizes = [
        op.outputs[0].shape[-1] for op in program.ops
        if op.phase == "forward" and op.module in layers and _is_odd_product(op)
    ]  # fmt: skip
    return tuple(dict.fromkeys(sizes))


def _is_odd_product(op: Op) -> bool:
    if op.name.rpartition("::")[2] not in ("mm", "addmm", "bmm") or not op.outputs:
        return False
    out = op.outputs[0]
    size = out.shape[-1]
    rows = out.numel // max(size, 1)
    odd = size >= _SMALLEST and (size * out.itemsize) % _ALIGNED_BYTES
    return bool(odd) and rows >= _FEWEST_ROWS


def pad_output(root: Any, at_end: Any = None) -> None:
    """Let a model's wide output layers of odd size multiply with padded weights.

    Args:
        root: the model; its parameters, their names and their values stay as they are.
        at_end: takes a function that undoes it; None where it is to stay.
    """
    import torch

    for layer in root.modules():
        if type(layer) is not torch.nn.Linear or "forward" in vars(layer):
            continue
        out = layer.weight.shape[0]
        if out >= _SMALLEST and out % (_ALIGNED_BYTES // 2):
            vars(layer)["forward"] = functools.partial(_padded_forward, layer)
            if at_end is not None:
                at_end(functools.partial(_restore, layer))


def _restore(layer: Any) -> None:
    vars(layer).pop("forward", None)


def _padded_forward(layer: Any, x: Any) -> Any:
    """The layer's product with rows of zeros below its weight; their logits are cut off."""
    import torch
    from torch.nn import functional

    size, width = layer.weight.shape
    if x.numel() < _FEWEST_ROWS * width:
        return functional.linear(x, layer.weight, layer.bias)
    weight, bias, device = layer.weight, layer.bias, x.device.type
    if torch.is_autocast_enabled(device):
        # Autocast would do so after the copy, which then moves twice the bytes.
        weight = weight.to(torch.get_autocast_dtype(device))
        bias = None if bias is None else bias.to(weight.dtype)
    rows = padded_size(size) - size
    weight = functional.pad(weight, (0, 0, 0, rows))
    bias = None if bias is None else functional.pad(bias, (0, rows))
    logits = functional.linear(x, weight, bias)[..., :size]
    # Half precision is cast by the loss, which makes it dense; float32 goes in as it is.
    return logits.contiguous() if logits.dtype is torch.float32 else logits


register(PadVocabulary())
