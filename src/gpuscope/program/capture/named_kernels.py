"""CUDA's fused operators called by their own names, and chosen for tensors that hold fakes.

A DTensor is a CPU tensor to C++, as fakes are, but has no CUDA keys: what `operators` registers for
device tensors does not see it, and C++ would choose the CPU's attention. So composite operators on
wrapped device tensors are sent to the CUDA operator by name, which DTensor knows how to shard; what
arrives here, on its local tensors, is recorded as the operator of `operators` that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuscope.program.capture.calls import Facts, made_of_others
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.operators import ONLY, choose_backend
from gpuscope.program.capture.operators import dropout as device_dropout
from gpuscope.program.capture.patches import by_thread
from gpuscope.program.capture.storages import held

_ATTENTION = "aten::_scaled_dot_product_{}_attention"


def _to_end(kind: str, named: Any) -> bool:
    """FlashAttention's causal mask ends at the last key, which is told apart where keys are more.

    Its README, 2.1; torch/nn/attention/bias.py calls it so for `causal_lower_right`.
    """
    longer = named["key"].shape[-2] != named["query"].shape[-2]
    return kind == "flash" and bool(named.get("is_causal")) and longer


def _attention(kind: str) -> Callable[..., Any]:
    def run(named: Any, shapes: Any, only: str) -> Any:
        out, logsumexp = torch.ops.gpuscope.attention(
            named["query"],
            named["key"],
            named["value"],
            named.get("attn_bias"),
            named.get("dropout_p", 0.0),
            named.get("is_causal", False),
            named.get("scale"),
            kind + only,
            to_end=_to_end(kind, named),
        )
        made = list(shapes)
        made[0] = out
        if made[1].numel() == logsumexp.numel():
            made[1] = logsumexp.view(made[1].shape)
        return tuple(made)

    return run


def _attention_backward(kind: str) -> Callable[..., Any]:
    def run(named: Any, shapes: Any, only: str) -> Any:
        grads = torch.ops.gpuscope.attention_backward(
            named.get("grad_out", named.get("grad_out_")),
            named["query"],
            named["key"],
            named["value"],
            named["out"],
            named["logsumexp"],
            named.get("attn_bias"),
            named.get("dropout_p", 0.0),
            named.get("is_causal", False),
            named.get("scale"),
            kind + only,
            to_end=_to_end(kind, named),
        )
        return (*grads, *shapes[len(grads) :])

    return run


def _window(named: Any) -> int:
    """Keys that a query sees, its own the last; 0 where nothing but `is_causal` limits them."""
    left, right = named.get("window_size_left"), named.get("window_size_right")
    return 0 if left is None or left < 0 or right != 0 else int(left) + 1


def _flash(named: Any, shapes: Any, only: str) -> Any:
    """FlashAttention's own operator, whose heads come after the sequence: it knows windows."""
    if named.get("cum_seq_q") is not None:
        return shapes
    window = _window(named)
    out, logsumexp = torch.ops.gpuscope.attention(
        *(named[name].transpose(1, 2) for name in ("query", "key", "value")),
        None,
        named["dropout_p"],
        named["is_causal"] or window > 0,
        named.get("scale"),
        "flash" + ONLY,
        window=window,
        to_end=named["key"].shape[1] != named["query"].shape[1],
    )
    return (out.transpose(1, 2), logsumexp, *shapes[2:])


def _flash_backward(named: Any, shapes: Any, only: str) -> Any:
    if named.get("cum_seq_q") is not None:
        return shapes
    window = _window(named)
    grads = torch.ops.gpuscope.attention_backward(
        *(named[name].transpose(1, 2) for name in ("grad_out", "query", "key", "value", "out")),
        named["logsumexp"],
        None,
        named["dropout_p"],
        named["is_causal"] or window > 0,
        named.get("scale"),
        "flash" + ONLY,
        window=window,
        to_end=named["key"].shape[1] != named["query"].shape[1],
    )
    return tuple(grad.transpose(1, 2) for grad in grads)


def _rms_norm(named: Any, shapes: Any, only: str) -> Any:
    return torch.ops.gpuscope.rms_norm(named["input"], named["weight"], named["eps"] or 1e-6)


def _rms_norm_backward(named: Any, shapes: Any, only: str) -> Any:
    return torch.ops.gpuscope.rms_norm_backward(
        named["grad_out"], named["input"], named["rstd"], named["weight"]
    )


_TAKEN: dict[str, Callable[..., Any]] = {
    "aten::_flash_attention_forward": _flash,
    "aten::_flash_attention_backward": _flash_backward,
    "aten::_fused_rms_norm": _rms_norm,
    "aten::_fused_rms_norm_backward": _rms_norm_backward,
}
for _kind in ("flash", "efficient", "cudnn"):
    _TAKEN[_ATTENTION.format(_kind)] = _attention(_kind)
    _TAKEN[_ATTENTION.format(_kind) + "_backward"] = _attention_backward(_kind)


_FAST_PATH = frozenset(
    f"aten::{name}"
    for name in (
        "_native_multi_head_attention",
        "_nested_tensor_from_mask",
        "_nested_tensor_from_mask_left_aligned",
        "_transformer_encoder_layer_fwd",
        "to_padded_tensor",
    )
)
"""What `encoders` takes apart."""


def run(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    """The call as the capture's own operator, or NotImplemented if it is none of these."""
    if facts.name in _FAST_PATH:
        from gpuscope.program.capture import encoders

        return encoders.run(recorder, facts.name, args, kwargs)
    taken = _TAKEN.get(facts.name)
    if taken is None or not on_device(args[0]):
        return NotImplemented
    named = dict(zip(facts.argument_names, args, strict=False)) | kwargs
    shapes = func(*args, **kwargs)
    kind = facts.name.removeprefix("aten::").removesuffix("_backward")
    if kind == facts.name.removeprefix("aten::"):  # forward: what the user allows holds for both
        enabled = getattr(torch.backends.cuda, "cudnn_sdp_enabled", bool)()
        recorder.restricted[kind] = "" if enabled or "cudnn" in kind else ONLY
    with recorder:
        return taken(named, shapes, recorder.restricted.get(kind, ""))


def _wrapped(tensor: Any) -> bool:
    """Whether a tensor holds one of the device."""
    inside = held(tensor)
    return inside is not tensor and on_device(inside)


def _scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if not _wrapped(q):
        return torch.ops.aten.scaled_dot_product_attention.default.decompose(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    kind = choose_backend(held(q), held(k), held(v), attn_mask, dropout_p, is_causal)
    if kind == "flash":
        return torch.ops.aten._scaled_dot_product_flash_attention(
            q, k, v, dropout_p, is_causal, False, scale=scale
        )[0]
    if kind == "efficient":
        needed = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            q, k, v, attn_mask, needed, dropout_p, is_causal, scale=scale
        )[0]
    if kind == "cudnn":
        needed = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        return torch.ops.aten._scaled_dot_product_cudnn_attention(
            q, k, v, attn_mask, needed, dropout_p, is_causal, False, scale=scale
        )[0]
    return torch.ops.aten._scaled_dot_product_attention_math(
        q, k, v, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


class _WrappedNorm(torch.autograd.Function):
    """The fused operator, which without a CUDA key would be taken apart before DTensor sees it."""

    @staticmethod
    def forward(ctx: Any, x: Any, shape: Any, weight: Any, eps: float | None) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            out, rstd = torch.ops.aten._fused_rms_norm(x, shape, weight, eps)
        ctx.save_for_backward(x, rstd, weight)
        ctx.shape = shape
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        x, rstd, weight = ctx.saved_tensors
        with torch._C._AutoDispatchBelowAutograd():
            dx, dw = torch.ops.aten._fused_rms_norm_backward(
                grad, x, ctx.shape, rstd, weight, [True, weight is not None]
            )
        return dx, None, dw, None


def _norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if _wrapped(x) and len(shape) == 1 and (weight is None or weight.dtype is x.dtype):
        return _WrappedNorm.apply(x, shape, weight, eps)
    return torch.ops.aten.rms_norm.default.decompose(x, shape, weight, eps)


def _dropout(x: Any, p: float, train: bool) -> Any:
    if _wrapped(x):
        return device_dropout(x, p, train)
    return torch.ops.aten.dropout.default.decompose(x, p, train)


def register(library: torch.library.Library) -> None:
    """Register the choices for wrapped tensors on `library` (an "IMPL" library of "aten")."""
    replaced: dict[str, Any] = {
        "scaled_dot_product_attention": _scaled_dot_product_attention,
        "dropout": _dropout,
    }
    if hasattr(torch.ops.aten, "_fused_rms_norm"):
        replaced["rms_norm"] = _norm
    for name, kernel in replaced.items():
        other = made_of_others(getattr(torch.ops.aten, name).default)
        library.impl(name, by_thread(kernel, other), "AutogradCPU")
