"""No mask where nothing is masked: attention without one may use the faster kernels.

A mask rules out FlashAttention (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). Two habits
bring one that masks nothing: passing the tokeniser's `attention_mask` for batches without padding,
and compiling a model of transformers, which then builds a mask of all ones even if it was given
none (transformers, masking_utils.py: "we must pass an example input" for exports). Here both are
dropped, each only where that is exact: values are looked at, once for each mask that comes.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_CODE, ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["NoPaddingMask", "skip_empty_masks"]

_MASK_ARGUMENTS = ("attention_mask", "decoder_attention_mask", "encoder_attention_mask")


class NoPaddingMask(Change):
    """Drop attention masks that mask nothing."""

    name = "no-padding-mask"
    title = Text("no mask where nothing is masked")
    group = "operators"
    numerics = "reordered"
    rank = 25

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a model of transformers, and masks, or a compiler that would bring some."""
        if case.program is None or case.seen is None:
            return NO_CODE
        if not any(m.attention for m in case.seen.models):
            why = Text("No model of transformers is used.")
            return Fit(False, why, relevant=False)
        masked = masked_attention(case.program)
        if masked:
            return Fit(
                True,
                Text(
                    "{masked} attention calls add a mask; if it masks nothing, it only rules the "
                    "fastest kernels out.",
                    masked=masked,
                ),
            )
        if case.program.compiled and not _takes_apart(case.program):
            return Fit(False, Text("No attention has a mask."))
        if case.program.compiled:
            return Fit(
                True,
                Text(
                    "The compiled model builds a mask that masks nothing, and no fused kernel "
                    "takes it."
                ),
            )
        if not _looks_at_a_mask(case.program):
            return Fit(False, Text("No mask is passed."), relevant=False)
        return Fit(
            True,
            Text("A mask is passed; compiled, attention would add it even if it masks nothing."),
        )

    def install(self, live: Live) -> None:
        """Look at masks that are passed; tell transformers to build none out of nothing."""
        skip_empty_masks(live)
        live.on_call(_without_mask)

    def price(self, case: ChangeCase) -> Text | None:
        """The look at the mask."""
        return Text("The host waits for the device once for each new mask, to look at it.")


def skip_empty_masks(live: Live) -> None:
    """Have transformers build no mask under a compiler where it was given none.

    Exact: only for a whole sequence against itself, without a window and without padding, where
    attention is told to be causal (or not) by a flag.
    """
    try:
        import transformers  # noqa: F401
        from transformers import masking_utils
    except ImportError:
        return  # no such model can be there
    for name, replaced in (
        ("_ignore_causal_mask_sdpa", _causal),
        ("_ignore_bidirectional_mask_sdpa", _bidirectional),
    ):
        original = getattr(masking_utils, name, None)
        if original is not None:
            live.set(masking_utils, name, replaced(original))


def _causal(original: Any) -> Any:
    @functools.wraps(original)
    def ignore(
        padding_mask: Any,
        q_length: Any,
        kv_length: Any,
        q_offset: Any,
        kv_offset: Any,
        local_attention_size: Any = None,
    ) -> Any:
        whole = isinstance(q_offset, int) and q_offset == 0 and q_length == kv_length
        if padding_mask is None and whole and _wide(local_attention_size, kv_length):
            return True
        return original(
            padding_mask, q_length, kv_length, q_offset, kv_offset, local_attention_size
        )

    return ignore


def _bidirectional(original: Any) -> Any:
    @functools.wraps(original)
    def ignore(padding_mask: Any, kv_length: Any, local_attention_size: Any = None) -> Any:
        if padding_mask is None and _wide(local_attention_size, kv_length):
            return True
        return original(padding_mask, kv_length, local_attention_size)

    return ignore


def _wide(window: Any, kv_length: Any) -> bool:
    return window is None or bool(kv_length < window)


def _without_mask(module: Any, call: Any) -> Any:
    """A model's call without the masks that mask nothing."""
    if not _of_transformers(module):
        return call
    looked_at: dict[str, tuple[int, int, bool]] = {}

    def empty(name: str, mask: Any) -> bool:
        key = (id(mask), mask._version)
        known = looked_at.get(name)
        if known is None or known[:2] != key:
            known = looked_at[name] = (*key, bool((mask != 0).all()))
            kept[name] = mask  # so that its id is not given to another one
        return known[2]

    kept: dict[str, Any] = {}

    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in _MASK_ARGUMENTS:
            mask = kwargs.get(name)
            # Masks of two dimensions name tokens that count; others have meanings of their own.
            tokens = getattr(mask, "ndim", 0) == 2 and kwargs.get("past_key_values") is None
            if tokens and empty(name, mask):
                kwargs[name] = None
        return call(*args, **kwargs)

    return called


def _of_transformers(module: Any) -> bool:
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(module, transformers.PreTrainedModel)


def masked_attention(program: Program) -> int:
    """Forward calls of fused attention that are given a mask."""
    return sum(op.name == "gpuscope::attention" and len(op.inputs) > 3 for op in program.ops)


def _looks_at_a_mask(program: Program) -> bool:
    """Whether the host reads a flag in the forward pass, as transformers does of a mask."""
    return any(
        op.phase == "forward"
        and op.name == "aten::_local_scalar_dense"
        and op.inputs
        and op.inputs[0].dtype == "bool"
        for op in program.ops
    )


def _takes_apart(program: Program) -> bool:
    """Whether attention runs as products and a softmax (a mask expanded along the keys)."""
    return not any(op.name == "gpuscope::attention" for op in program.ops)


register(NoPaddingMask())
