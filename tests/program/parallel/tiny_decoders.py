"""Decoders small enough to be trained in a test, one of each kind."""

from dataclasses import replace

from gpuscope.program.models.parallel.size import (
    Experts,
    LatentAttention,
    StateSpace,
    TransformerSize,
    Window,
)

LLAMA = TransformerSize(
    layers=2, hidden=32, heads=4, kv_heads=2, head=8, ffn=48, vocabulary=64, context=16
)
GPT = TransformerSize(
    layers=2,
    hidden=32,
    heads=4,
    kv_heads=4,
    head=8,
    ffn=64,
    vocabulary=64,
    context=32,
    norm="layer",
    gated=False,
    activation="gelu_tanh",
    positions="learned",
    tied=True,
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
)
MIXTURE = TransformerSize(
    layers=2,
    hidden=32,
    heads=4,
    kv_heads=2,
    head=8,
    ffn=48,
    vocabulary=64,
    context=16,
    head_norm=True,
    experts=Experts(count=4, chosen=2, ffn=24, shared_ffn=24, dense_layers=1, shared_gate=True),
)
LATENT = TransformerSize(
    layers=2,
    hidden=32,
    heads=4,
    kv_heads=4,
    head=8,
    ffn=48,
    vocabulary=64,
    context=16,
    latent=LatentAttention(query_rank=16, key_rank=8, plain_head=8, rope_head=4, value_head=8),
)
SQUARED = TransformerSize(
    layers=2,
    hidden=32,
    heads=4,
    kv_heads=2,
    head=8,
    ffn=64,
    vocabulary=64,
    context=16,
    norm="layer",
    norm_bias=False,
    gated=False,
    activation="relu2",
    rope_share=0.5,
)

NEAR = TransformerSize(
    layers=2,
    hidden=32,
    heads=4,
    kv_heads=2,
    head=8,
    ffn=64,
    vocabulary=64,
    context=16,
    activation="gelu_tanh",
    tied=True,
    head_norm=True,
    result_norm=True,
    window=Window(tokens=4),
)

HYBRID = TransformerSize(
    layers=4,
    pattern="M*E-",
    hidden=32,
    heads=4,
    kv_heads=2,
    head=8,
    ffn=48,
    vocabulary=64,
    context=16,
    gated=False,
    activation="relu2",
    positions="none",
    experts=Experts(count=4, chosen=2, ffn=24, shared_ffn=24),
    states=StateSpace(heads=4, head=8, state=8, groups=2, chunk=8),
)

BIASED = replace(
    MIXTURE, experts=Experts(count=4, chosen=2, ffn=24, limit=0.05), mlp_bias=True, rope_factor=1.35
)

KINDS = {
    "biased": BIASED,
    "llama": LLAMA,
    "gpt": GPT,
    "mixture": MIXTURE,
    "latent": LATENT,
    "squared": SQUARED,
    "near": NEAR,
    "hybrid": HYBRID,
}
