"""Attention under all its names, as `gpuscope::attention` [batch, heads, sequence, width].

Whether the upper triangle is left out halves the work, so a call whose values were not recorded
gets no answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.program.signatures.call import Call, Made, dense, rule, swapped
from gpuscope.program.types import TensorSpec


@dataclass(frozen=True, slots=True)
class _Schema:
    """Positions of dropout and of what says causal; whether heads come after the sequence."""

    dropout: int
    causal: int
    backend: str
    heads_last: bool = False


_FORWARD = {
    "_scaled_dot_product_flash_attention": _Schema(3, 4, "flash"),
    "_scaled_dot_product_efficient_attention": _Schema(5, 6, "efficient"),
    "_scaled_dot_product_cudnn_attention": _Schema(5, 6, "cudnn"),
    "_scaled_dot_product_fused_attention_overrideable": _Schema(4, 5, "flash"),
    "_flash_attention_forward": _Schema(7, 8, "flash", True),
    "_efficient_attention_forward": _Schema(8, 9, "efficient", True),
    "_cudnn_attention_forward": _Schema(9, 10, "cudnn"),
}
_BACKWARD = {
    "_scaled_dot_product_flash_attention_backward": _Schema(10, 11, "flash"),
    "_scaled_dot_product_efficient_attention_backward": _Schema(9, 11, "efficient"),
    "_scaled_dot_product_cudnn_attention_backward": _Schema(13, 14, "cudnn"),
    "_flash_attention_backward": _Schema(10, 11, "flash", True),
    "_efficient_attention_backward": _Schema(11, 14, "efficient", True),
    "_cudnn_attention_backward": _Schema(13, 14, "cudnn"),
}


def _options(call: Call, schema: _Schema) -> dict[str, object] | None:
    if call.texts is None or schema.causal >= len(call.texts):
        return None
    causal = call.value(schema.causal)
    dropout = call.value(schema.dropout)
    return {
        # The memory-efficient kernels take a kind of mask: 1 and 2 are lower triangles.
        "causal": bool(causal),
        "backend": schema.backend,
        "implementation": schema.backend,
        "dropout_p": float(dropout) if isinstance(dropout, (int, float)) else 0.0,
        # FlashAttention's lower triangle ends at the last key, also where keys are more.
        "to_end": bool(causal) and schema.backend == "flash",
    }


def _heads_first(specs: tuple[TensorSpec, ...], schema: _Schema) -> tuple[TensorSpec, ...]:
    return tuple(swapped(s, 1, 2) for s in specs) if schema.heads_last else specs


def _fit(q: TensorSpec, k: TensorSpec, v: TensorSpec) -> bool:
    """Four dimensions, one batch, equal keys and values. Packed sequences have three."""
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        return False
    return q.shape[0] == k.shape[0] == v.shape[0] and q.shape[3] == k.shape[3]


@rule(*_FORWARD)
def forward(call: Call) -> Made | None:
    """q, k, v, perhaps a bias."""
    schema = _FORWARD[call.name]
    options = _options(call, schema)
    if options is None or len(call.tensors) < 3 or not _fit(*call.tensors[:3]):
        return None
    q, k, v = _heads_first(call.tensors[:3], schema)
    mask = [t for t in call.tensors[3:4] if len(t.shape) == 4]
    out = dense((*q.shape[:3], v.shape[3]), like=q)
    sums = dense(q.shape[:3], dtype="float32")
    return Made("gpuscope::attention", (q, k, v, *mask), (out, sums), options)


@rule(*_BACKWARD)
def backward(call: Call) -> Made | None:
    """grad, q, k, v, perhaps a bias, out, logsumexp, ..."""
    schema = _BACKWARD[call.name]
    options = _options(call, schema)
    if options is None or len(call.tensors) < 5 or not _fit(*call.tensors[1:4]):
        return None
    rest = [t for t in call.tensors[4:6] if t.shape == call.tensors[0].shape]
    if not rest:
        return None
    grad, q, k, v, out = _heads_first((*call.tensors[:4], rest[0]), schema)
    sums = dense(q.shape[:3], dtype="float32")
    outputs = tuple(dense(t.shape, like=t) for t in (q, k, v))
    return Made("gpuscope::attention_backward", (grad, q, k, v, out, sums), outputs, options)
