"""One kernel for attention: `scaled_dot_product_attention` instead of products and a softmax.

Explicit attention writes the scores (one for each pair of tokens and head) to memory and reads
them several times; a fused kernel keeps them on chip (Dao et al. 2022, FlashAttention). Here for
models of transformers that were told "eager", and for `nn.MultiheadAttention` that is asked for
weights that nobody named: both know the fused path and only have to be told.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source import replace_node
from gpuscope.advice.types import NO_CODE, Case, Edit, Fit, Seen
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["Sdpa"]

_NEED_WEIGHTS = 4
"""Place of `need_weights` among the arguments of `MultiheadAttention.forward`, self not counted."""


class Sdpa(Change):
    """Compute attention in one kernel."""

    name = "sdpa"
    title = Words("attention in one kernel (SDPA)", "融合注意力（SDPA）")
    group = "operators"
    numerics = "reordered"
    rank = 30

    def fits(self, case: Case) -> Fit:
        """It needs attention whose implementation can be chosen, and that is not fused."""
        if case.program is None or case.seen is None:
            return NO_CODE
        told = [m for m in case.seen.models if m.attention == "eager"]
        if told:
            names = ", ".join(sorted({m.class_name for m in told}))
            return Fit(
                True,
                Words(
                    f'{names} was told to compute attention step by step ("eager").',
                    f'{names} 被设成逐步计算注意力（"eager"）。',
                ),
            )
        open_coded = unfused_multihead(case.program)
        if open_coded:
            return Fit(
                True,
                Words(
                    f"{open_coded} nn.MultiheadAttention write out weights that nobody asked for.",
                    f"{open_coded} 个 nn.MultiheadAttention 写出了没人要的注意力权重。",
                ),
            )
        if any(op.name.endswith("::attention") for op in case.program.ops):
            return Fit(False, Words("Attention is one kernel already.", "注意力已经是单个内核。"))
        if any("_softmax" in op.name and _over_scores(op) for op in case.program.ops):
            why = Words(
                "Attention is written by hand; nothing can be told to fuse it.",
                "注意力是手写的，没有开关可以让它融合。",
            )
            return Fit(False, why)
        return Fit(False, Words("There is no attention.", "没有注意力。"), relevant=False)

    def install(self, live: Live) -> None:
        """Tell models of transformers; have `nn.MultiheadAttention` give no weights unasked."""
        import torch

        live.on_model(_tell)
        mha = torch.nn.MultiheadAttention
        original = mha.forward

        @functools.wraps(original)
        def forward(this: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) <= _NEED_WEIGHTS:
                kwargs.setdefault("need_weights", False)
            return original(this, *args, **kwargs)

        live.set(mha, "forward", forward)

    def risk(self, case: Case) -> Words | None:
        """Attention weights are no longer there to be returned."""
        return Words(
            "Attention weights (`output_attentions=True`) are not returned any more.",
            "不再返回注意力权重（`output_attentions=True`）。",
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`attn_implementation="sdpa"` where it says "eager"."""
        return constant_edits(sources, "attn_implementation", "eager", "sdpa")


def constant_edits(
    sources: Mapping[str, str], keyword: str, old: str, new: str
) -> tuple[Edit, ...] | None:
    """Replace a keyword's string value wherever a call gives it; None where no call does."""
    found = [
        replace_node(file, text, k.value, f'"{new}"')
        for file, text in sources.items()
        for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)
        for k in node.keywords
        if k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value == old
    ]  # fmt: skip
    return tuple(found) or None


def unfused_multihead(program: Program) -> int:
    """How many `nn.MultiheadAttention` compute a softmax of their own."""
    paths = {m.path for m in program.modules if m.class_name == "MultiheadAttention"}
    return len({op.module for op in program.ops if op.module in paths and "_softmax" in op.name})


def _over_scores(op: Any) -> bool:
    """Whether a softmax runs over something like scores: pairs of tokens, by head."""
    return bool(op.inputs) and len(op.inputs[0].shape) >= 3 and op.inputs[0].shape[-2] > 1


def _tell(root: Any) -> None:
    for module in root.modules():
        config: Any = getattr(module, "config", None)
        if getattr(config, "_attn_implementation", None) != "eager":
            continue
        if not hasattr(module, "set_attn_implementation"):
            continue
        try:
            module.set_attn_implementation("sdpa")
        except (ValueError, ImportError) as error:
            raise _cannot(module, str(error).splitlines()[0]) from None
        if config._attn_implementation != "sdpa":
            raise _cannot(module, "Its class does not let attention be chosen after it was made.")


def _cannot(module: Any, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{type(module).__name__} cannot be told to use fused attention.", why,
        'Make the model with attn_implementation="sdpa".',
    )  # fmt: skip


register(Sdpa())
