"""Operators that take functions: `torch.cond`, `while_loop`, `scan`, `flex_attention`.

Control flow is followed as it runs without a compiler, where the host reads the condition.
Attention with functions of its own is one fused kernel inside compiled code, and products with the
whole matrix of scores between them outside of it, as PyTorch runs it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError

_MOST_TURNS = 10_000
"""Turns of a `while_loop` after which its end is taken as never coming."""


def run(recorder: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """What the operator returns; its work is recorded.

    Raises:
        CaptureError: it is none of these, or a loop without an end in sight.
    """
    name = func.name()
    known: Any = _KNOWN.get(name)
    if known is None:
        raise CaptureError(
            Text("gpuscope cannot follow the operator '{operator}' yet.", operator=name),
            Text("It takes functions as arguments, each of which would need a rule of its own."),
            Text("Say the same by plain operators while predicting, or leave it out."),
        )
    with recorder:
        return known(recorder, *args, **kwargs)


def _cond(recorder: Any, chosen: Any, if_true: Any, if_false: Any, operands: Any = ()) -> Any:
    return if_true(*operands) if bool(chosen) else if_false(*operands)


def _while(recorder: Any, goes_on: Any, body: Any, carried: Any, more: Any = ()) -> Any:
    for _ in range(_MOST_TURNS):
        if not bool(goes_on(*carried, *more)):
            return tuple(carried)
        carried = body(*carried, *more)
    raise CaptureError(
        Text("A while_loop has not ended after {turns} turns.", turns=_MOST_TURNS),
        Text("Whether it goes on depends on data of the device, which has no values here."),
        Text("Give it a bound: count its turns in a whole number that starts on the host."),
    )


def _scan(recorder: Any, combine: Any, first: Any, along: Any, more: Any = ()) -> Any:
    from torch._higher_order_ops.scan import generic_scan

    return generic_scan(combine, first, along, additional_inputs=more)


def _flex(recorder: Any, q: Any, k: Any, v: Any, score_mod: Any, *rest: Any, **named: Any) -> Any:
    if not recorder.regions.active:
        from torch._higher_order_ops.flex_attention import sdpa_dense

        return sdpa_dense(q, k, v, score_mod, *rest, **named)
    scale = rest[1] if len(rest) > 1 else named.get("scale")
    causal = _half(rest[0] if rest else named.get("block_mask"), q, k)
    out, logsumexp = torch.ops.gpuscope.attention(q, k, v, None, 0.0, causal, scale, _FUSED)
    if not causal:
        recorder.values.assume(_WHOLE)
    return out, logsumexp, torch.empty_like(logsumexp)


def _flex_backward(
    recorder: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, grad: Any, *rest: Any
) -> Any:
    if recorder.regions.current() == 0:
        from torch._higher_order_ops.flex_attention import sdpa_dense_backward

        return sdpa_dense_backward(q, k, v, out, logsumexp, grad, *rest)
    causal, scale, captured = _half(rest[3], q, k), rest[4], rest[6]
    grads = torch.ops.gpuscope.attention_backward(
        grad, q, k, v, out, logsumexp, None, 0.0, causal, scale, _FUSED
    )
    return (*grads, tuple(torch.empty_like(t) if t.requires_grad else None for t in captured))


def _half(block_mask: Any, q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether a mask leaves about half of the pairs, as a causal one does.

    It is asked at a few places, in host memory. A mask that looks at tensors of the device cannot
    be asked: it is taken to leave all.
    """
    if not block_mask or not callable(block_mask[-1]):
        return False
    try:
        with no_dispatch(), torch.no_grad():
            rows, columns = (
                torch.arange(_SAMPLES) * t.shape[-2] // _SAMPLES + t.shape[-2] // (2 * _SAMPLES)
                for t in (q, k)
            )
            zero = torch.zeros((), dtype=torch.int64)
            kept = block_mask[-1](zero, zero, rows[:, None], columns[None, :])
            share = float(kept.expand(_SAMPLES, _SAMPLES).double().mean())
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError):
        return False
    return 0.4 < share < 0.6


_SAMPLES = 32

_FUSED = "flash_only"

_WHOLE = Text(
    "flex_attention inside compiled code is taken as one fused kernel over all pairs of positions: "
    "what a block mask leaves out is not taken off."
)

_KNOWN = {
    "cond": _cond,
    "while_loop": _while,
    "scan": _scan,
    "flex_attention": _flex,
    "flex_attention_backward": _flex_backward,
}
