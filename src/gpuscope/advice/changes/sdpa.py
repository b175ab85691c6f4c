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
from gpuscope.advice.source.edits import replace_node
from gpuscope.advice.types import NO_CODE, ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["Sdpa"]

_NEED_WEIGHTS = 4
"""Place of `need_weights` among the arguments of `MultiheadAttention.forward`, self not counted."""


class Sdpa(Change):
    """Compute attention in one kernel."""

    name = "sdpa"
    title = Text("attention in one kernel (SDPA)")
    group = "operators"
    numerics = "reordered"
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs attention whose implementation can be chosen, and that is not fused."""
        if case.program is None or case.seen is None:
            return NO_CODE
        known = [m for m in case.seen.models if m.attention == "eager"]
        if known:
            names = ", ".join(sorted({m.class_name for m in known}))
            return Fit(
                True,
                Text('{names} was told to compute attention step by step ("eager").', names=names),
            )
        open_coded = unfused_multihead(case.program)
        if open_coded:
            return Fit(
                True,
                Text(
                    "{open_coded} nn.MultiheadAttention write out weights that nobody asked for.",
                    open_coded=open_coded,
                ),
            )
        if any(op.name.endswith("::attention") for op in case.program.ops):
            return Fit(False, Text("Attention is one kernel already."))
        if any("_softmax" in op.name and _over_scores(op) for op in case.program.ops):
            why = Text("Attention is written by hand; nothing can be told to fuse it.")
            return Fit(False, why)
        return Fit(False, Text("There is no attention."), relevant=False)

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

    def risk(self, case: ChangeCase) -> Text | None:
        """Attention weights are no longer there to be returned."""
        return Text("Attention weights (`output_attentions=True`) are not returned any more.")

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
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for k in node.keywords
        if k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value == old
    ]
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
        Text("{name} cannot be told to use fused attention.", name=type(module).__name__),
        why,
        Text('Make the model with attn_implementation="sdpa".'),
    )


register(Sdpa())
