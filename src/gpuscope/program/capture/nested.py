"""Nested tensors of the jagged layout: their ragged size, and attention over it.

A nested tensor holds its rows side by side and the offsets of its sequences; what it calls arrives
at the recorder on these. Attention chooses its kernel in C++, by the device: here it is the one
operator that CUDA runs, which knows how many equal sequences multiply as much.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from gpuscope.document.text import Text
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.operators import choose_backend

__all__ = ["attention", "ragged_size", "varied_attention"]

_RAGGED = "_gpuscope_ragged"


def ragged_size(offsets: FakeTensor, coeff: Any) -> Any:
    """What stands for the ragged size that these offsets give: eager PyTorch's, one a tensor.

    A fake asks its mode for a symbol, which would need symbolic shapes throughout.
    """
    from torch.nested._internal.nested_tensor import get_tensor_symint

    known: dict[str, Any] = vars(offsets)
    if _RAGGED not in known:
        with no_dispatch():
            known[_RAGGED] = torch.empty(0)
    return get_tensor_symint(known[_RAGGED], coeff=coeff)


def attention(
    recorder: Any, original: Any, query: Any, key: Any, value: Any, *args: Any, **named: Any
) -> Any:
    """`scaled_dot_product_attention` of nested tensors."""
    if _is_ragged(query, key, value) and not args and named.get("attn_mask") is None:
        return _attended(recorder, query, key, value, **named)
    return original(query, key, value, *args, **named)


def _is_ragged(*tensors: Any) -> bool:
    """Whether all are [batch, heads, ragged, size] on the device."""
    return all(
        getattr(t, "_ragged_idx", None) == 2 and t.dim() == 4 and on_device(t._values)
        for t in tensors
    )


def _attended(
    recorder: Any,
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Any:
    """Attention over sequences of different lengths, as one kernel."""
    rows = [t.transpose(1, 2).values() for t in (q, k, v)]  # [all rows, heads, size]
    shortest, longest = q._get_min_seqlen(), q._get_max_seqlen()
    k._get_min_seqlen(), k._get_max_seqlen()
    for t in (q, k):  # what the kernel is told of the sequences
        t.offsets().to(torch.int32)
    with torch.no_grad():
        like = [t[:1].unsqueeze(0).transpose(1, 2) for t in rows]
        backend = choose_backend(like[0], like[1], like[2], None, dropout_p)
    options = (dropout_p, is_causal, scale, backend)
    out = varied_attention(rows, _sequences(recorder, q, k), options)
    nested = torch.nested.nested_tensor_from_jagged(
        out, q.offsets(), min_seqlen=shortest, max_seqlen=longest
    )
    return nested.transpose(1, 2)


def _sequences(recorder: Any, q: Any, k: Any) -> float:
    """How many equal sequences do as much work: (sum of lengths)² / sum of squares."""
    given = [recorder.host_values.read(t.offsets()) for t in (q, k)]
    if any(values is None for values in given):
        recorder.values.assume(
            Text("Sequences of nested tensors whose lengths depend on data are taken as equal.")
        )
        return float(q.size(0))
    with no_dispatch():
        of_q, of_k = (values.diff().double() for values in given)
        pairs = float((of_q * of_k).sum())
        return max(1.0, float(of_q.sum()) * float(of_k.sum()) / pairs) if pairs else 1.0


def _in_a_row(rows: torch.Tensor) -> torch.Tensor:
    """Rows [all, heads, size] as one sequence [1, heads, all, size]: a view."""
    return rows.unsqueeze(0).transpose(1, 2)


def varied_attention(rows: Any, sequences: float, options: tuple[Any, ...]) -> torch.Tensor:
    """Attention over sequences of different lengths that lie one after the other, as one kernel.

    Args:
        rows: queries, keys, values, [all rows, heads, size] each.
        sequences: how many equal ones do as much work.
        options: dropout, causal, scale, backend as `gpuscope::attention` takes them.
    """
    out: torch.Tensor = _Attention.apply(*rows, sequences, options)
    return out


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, sequences: float, options: Any) -> Any:
        views = [_in_a_row(rows) for rows in (q, k, v)]
        logsumexp = torch.ops.gpuscope.attention(*views, None, *options, sequences)[1]
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        ctx.save_for_backward(q, k, v, out, logsumexp)
        ctx.rest = sequences, options
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        *given, out, logsumexp = ctx.saved_tensors
        sequences, options = ctx.rest
        views = [_in_a_row(rows) for rows in (grad.contiguous(), *given, out)]
        torch.ops.gpuscope.attention_backward(*views, logsumexp, None, *options, False, sequences)
        return (*(torch.empty_like(rows) for rows in given), None, None)
