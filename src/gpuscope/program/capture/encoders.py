"""Encoders of plain PyTorch in inference: what their fast path launches on CUDA.

Where no gradient is wanted, `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` call one
operator each (torch/nn/modules/transformer.py and activation.py have the conditions), and
`nn.TransformerEncoder` with a padding mask leaves the padding out: its layers then work on a nested
tensor of the strided layout. None of these can be seen by a fake. Here they are taken apart into
what CUDA's own kernels of them call (aten/src/ATen/native/transformers/transformer.cpp,
cuda/attention.cu; nested/NestedTensorMath.cpp, cuda/NestedTensorTransformerFunctions.cpp).

What stands for the nested tensor is one sequence of all rows, [1, rows, width], that knows how long
its parts are (`lengths_of`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from gpuscope.program.capture.conversions import crossing, to_host
from gpuscope.program.capture.fakes import accelerator, on_device
from gpuscope.program.capture.nested import varied_attention
from gpuscope.program.capture.operators import ONLY, attention, choose_backend

__all__ = ["lengths_of", "run"]

_LENGTHS = "_gpuscope_lengths"

_MASKED_WARP = 1024
"""Longest row for which a softmax knows a mask (masked_softmax_cuda in cuda/SoftMax.cu)."""


def lengths_of(tensor: Any) -> tuple[int, ...] | None:
    """How long the sequences are that lie one after the other in a tensor; None of another one."""
    return getattr(tensor, _LENGTHS, None)


def _with_lengths(rows: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
    setattr(rows, _LENGTHS, lengths)
    return rows


def run(recorder: Any, name: str, args: Any, kwargs: Any) -> Any:
    """An operator of the fast path, or NotImplemented where its tensors are not on the device."""
    if not on_device(args[0]):
        return NotImplemented
    with recorder, recorder.python.left_out():  # C++ does it
        return _TAKEN[name](recorder, *args, **kwargs)


# -- dense -----------------------------------------------------------------------------------------


def _attended(
    recorder: Any,
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """`aten::_native_multi_head_attention` on [B, T, D], and the weights where they are needed.

    Nothing but `nn.MultiheadAttention` calls it, and only for attention to itself.
    """
    size = width // heads
    if not need_weights and mask is None and size % 8 == 0:
        out = _fused(recorder, query, width, heads, qkv_weight, qkv_bias)
        if out is not None:
            return functional.linear(out, weight, bias), None
    mixed, shares = _by_products(query, heads, qkv_weight, qkv_bias, mask, mask_type)
    if not need_weights:
        shares = None
    out = mixed.transpose(1, 2).contiguous().flatten(2)
    out = functional.linear(out.flatten(0, 1), weight, bias).view(out.shape)
    if shares is not None and average:
        shares = shares.sum(1).div_(heads)
    return out, shares


def _fused(
    recorder: Any, query: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any
) -> Any:
    """One kernel for all of attention, [B, T, D] before the last product; None without such."""
    lengths = lengths_of(query)

    def by_head(x: Any) -> Any:
        return x.view(x.shape[0], -1, heads, width // heads).transpose(1, 2)

    with recorder.looking_away():
        like = by_head(query)
        backend = choose_backend(like, like, like, None, 0.0)
    if backend == "math":
        return None
    q, k, v = (
        by_head(part) for part in functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    )
    if lengths is None:
        return attention(q, k, v).transpose(1, 2).flatten(2)
    rows = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
    for _ in ("queries", "keys"):
        _told(len(lengths) + 1)
    pairs = sum(n * n for n in lengths)
    equal = max(1.0, sum(lengths) ** 2 / pairs) if pairs else 1.0
    options = (0.0, False, None, backend + ONLY)  # cuDNN's does not stand in for this layout
    return varied_attention(rows, equal, options).view(query.shape)


def _by_products(
    query: Any, heads: int, qkv_weight: Any, qkv_bias: Any, mask: Any, mask_type: int | None
) -> tuple[Any, Any]:
    """Attention by two products and a softmax: [B, H, T, D / H] in the queries' memory; weights."""
    qkv = torch.matmul(query, qkv_weight.t())
    q, k, v = torch.ops.aten._transform_bias_rescale_qkv(qkv, qkv_bias, heads)
    del qkv
    flat_q, flat_k, flat_v = (t.view(-1, *t.shape[2:]) for t in (q, k, v))
    scores = torch.bmm(flat_q, flat_k.transpose(2, 1)).view(*q.shape[:3], k.shape[2])
    shares = _masked_softmax(scores, mask, mask_type)
    torch.bmm(shares.view(-1, *shares.shape[2:]), flat_v, out=flat_q)
    return q, shares


def _masked_softmax(scores: Any, mask: Any, mask_type: int | None) -> Any:
    """Softmax over the last dimension where a mask is false; without a mask in place."""
    if mask is None:
        return torch.ops.aten._softmax.out(scores, -1, False, out=scores)
    mask = mask if mask.dtype is torch.bool else mask.to(torch.bool)
    length = scores.shape[-1]
    fits = length <= _MASKED_WARP and length * scores.element_size() <= 4096
    if fits and mask.is_contiguous():
        return torch.ops.aten._masked_softmax(scores, mask, scores.dim() - 1, mask_type)
    if mask.dim() == 2:
        mask = mask.view(mask.shape[0], 1, 1, -1)
    return torch.softmax(scores.masked_fill(mask.expand(scores.shape), -math.inf), -1)


def _layer(
    recorder: Any,
    src: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    gelu: bool,
    norm_first: bool,
    eps: float,
    *rest: Any,
) -> Any:
    """`aten::_transformer_encoder_layer_fwd`: attention and two products, each with a sum, normed
    before or after."""
    first, second, up, down = (rest[at : at + 2] for at in (0, 2, 4, 6))
    mask, mask_type = (*rest[8:], None, None)[:2]
    lengths = lengths_of(src)

    def normed(x: Any, norm: Any) -> Any:
        return functional.layer_norm(x, (width,), norm[0], norm[1], eps)

    x = normed(src, first) if norm_first else src
    if lengths is not None:
        _with_lengths(x, lengths)
    given = (width, heads, qkv_weight, qkv_bias, weight, bias, mask, False, True, mask_type)
    x = _attended(recorder, x, x, x, *given)[0].add_(src)
    if not norm_first:
        x = normed(x, first)
    before = x
    if norm_first:
        x = normed(x, second)
    flat = x.view(-1, width)
    x = torch._addmm_activation(up[1], flat, up[0].t(), use_gelu=gelu)
    x = torch.addmm(down[1], x, down[0].t()).view(src.shape)
    x = x.add_(before)
    if not norm_first:
        x = normed(x, second)
    return x if lengths is None else _with_lengths(x, lengths)


# -- without padding -------------------------------------------------------------------------------


def _told(count: int, dtype: torch.dtype | None = None) -> None:
    """So many whole numbers that a kernel is given of its sequences, copied to the device, and
    converted there to a type."""
    given = torch.zeros(count, dtype=torch.int64 if dtype else torch.int32)
    moved = crossing(given, accelerator(), None, non_blocking=True)
    if dtype is not None:
        moved.to(dtype)


def _ends(mask: Any) -> tuple[Any, Any]:
    """How many places of each row are kept, and where the first is that is not."""
    after = mask.new_zeros((mask.shape[0], 1))
    first = torch.cat([mask, after], 1).to(torch.int32).argmin(1)
    return mask.cumsum(1).select(1, mask.shape[1] - 1), first


def _left_aligned(recorder: Any, t: Any, mask: Any) -> bool:
    """`aten::_nested_tensor_from_mask_left_aligned`: whether padding comes last in each row."""
    return torch.equal(*_ends(mask))


def _from_mask(recorder: Any, t: Any, mask: Any, check: bool = True) -> Any:
    """`aten::_nested_tensor_from_mask`: the rows of [B, T, D] that a mask keeps."""
    lengths = _kept(recorder, mask)
    sizes, first = _ends(mask)
    if check:
        torch.equal(sizes, first)
    sizes = sizes.reshape(-1, 1)
    to_host(torch.cat([sizes, torch.full_like(sizes, t.shape[2])], 1))
    if t.dtype not in (torch.float32, torch.float16):
        return _with_lengths(_one_by_one(recorder, t, lengths), lengths)
    _told(3 * len(lengths) + 4, torch.int32)
    return _with_lengths(torch.ops.gpuscope.without_padding(t, sum(lengths)), lengths)


def _kept(recorder: Any, mask: Any) -> tuple[int, ...]:
    """How many places of each row a mask keeps; where nobody knows it, as many of each."""
    known = recorder.host_values.read(mask)
    if known is not None:
        with torch.utils._mode_utils.no_dispatch():
            return tuple(int(n) for n in known.sum(1))
    rows = int(mask.shape[0])
    kept: int = recorder.values.count_nonzero(recorder._storage_id(mask), mask.numel())
    return (max(1, kept // rows),) * rows


def _one_by_one(recorder: Any, t: Any, lengths: Sequence[int]) -> Any:
    """The same for types that have no kernel: a mask for each sequence, and a selection."""
    length, width = t.shape[1:]
    masks = []
    for n in lengths:
        flags = t.new_full((n, width), True, dtype=torch.bool)
        masks.append(functional.pad(flags, (0, 0, 0, length - n)))
    mask = torch.stack(masks)
    recorder.values.share(recorder._storage_id(mask), sum(lengths) * width, mask.numel())
    return torch.masked_select(t, mask).view(1, -1, width)


def _padded(recorder: Any, rows: Any, padding: float, size: Sequence[int] | None = None) -> Any:
    """`aten::to_padded_tensor`: [B, T, D] again, the rest filled."""
    lengths = lengths_of(rows)
    if lengths is None:
        return NotImplemented
    width, longest = rows.shape[2], max(lengths)
    size = tuple(size) if size is not None else (len(lengths), longest, width)
    if rows.dtype in (torch.float32, torch.float16, torch.float64):
        _told(3 * len(lengths) + 1)
        return torch.ops.gpuscope.with_padding(rows, size)
    parts = rows.view(-1, width).split(lengths)
    made = torch.stack(
        [functional.pad(p, (0, 0, 0, longest - len(p)), value=padding) for p in parts]
    )
    return functional.pad(made, (0, 0, 0, size[1] - longest), value=padding)


_TAKEN: dict[str, Callable[..., Any]] = {
    "aten::_native_multi_head_attention": _attended,
    "aten::_transformer_encoder_layer_fwd": _layer,
    "aten::_nested_tensor_from_mask_left_aligned": _left_aligned,
    "aten::_nested_tensor_from_mask": _from_mask,
    "aten::to_padded_tensor": _padded,
}
