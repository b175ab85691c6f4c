"""Attention calls for tests, made into kernels."""

from __future__ import annotations

from matmul_work import dense, run

from gpuscope.cost.types import Kernel


def qkv(batch=1, heads=8, sq=512, sk=None, dim=64, kv_heads=None, dtype="bfloat16"):
    """Queries, keys and values; `kv_heads` fewer heads of the latter share them."""
    sk = sq if sk is None else sk
    kv_heads = kv_heads or heads
    q = dense(batch, heads, sq, dim, dtype=dtype)
    k = dense(batch, kv_heads, sk, dim, dtype=dtype)
    return q, k, k


def forward(
    *,
    on="h200",
    causal=False,
    dropout_p=0.0,
    backend="flash",
    hot=False,
    settings=None,
    window=0,
    to_end=False,
    **shape,
) -> tuple[Kernel, ...]:
    """Kernels of a forward pass."""
    q, k, v = qkv(**shape)
    logsumexp = dense(*q.shape[:-1], dtype="float32")
    return run(
        "gpuscope::attention",
        (q, k, v),
        (q, logsumexp),
        on=on,
        hot=hot,
        settings=settings,
        causal=causal,
        dropout_p=dropout_p,
        backend=backend,
        window=window,
        to_end=to_end,
    )


def backward(
    *, on="h200", causal=False, backend="flash", sequences=1.0, window=0, **shape
) -> tuple[Kernel, ...]:
    """Kernels of a gradient."""
    q, k, v = qkv(**shape)
    logsumexp = dense(*q.shape[:-1], dtype="float32")
    return run(
        "gpuscope::attention_backward",
        (q, q, k, v, q, logsumexp),
        (q, k, v),
        on=on,
        causal=causal,
        dropout_p=0.0,
        backend=backend,
        sequences=sequences,
        window=window,
    )


def seconds(kernels: tuple[Kernel, ...]) -> float:
    """All kernels' time."""
    return sum(k.duration_s for k in kernels)


def flops(kernels: tuple[Kernel, ...]) -> float:
    """All kernels' useful FLOPs."""
    return sum(k.flops for k in kernels)


def main(kernels: tuple[Kernel, ...]) -> Kernel:
    """The kernel that computes."""
    return max(kernels, key=lambda k: k.flops)
