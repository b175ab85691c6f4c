"""The size of a decoder from the configuration that it is published with. Imports no torch.

Names and defaults are those of the Hugging Face configuration classes (GPT2Config, LlamaConfig,
MistralConfig, MixtralConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig, Phi3Config,
DeepseekV3Config, DeepseekV32Config, GlmMoeDsaConfig, GptOssConfig, MiniMaxM2Config,
Qwen3NextConfig, Qwen3_5MoeTextConfig, Gemma2Config, Gemma3TextConfig, NemotronHConfig).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import log
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.program.models.parallel.size import (
    Experts,
    LatentAttention,
    LinearAttention,
    SparseAttention,
    StateSpace,
    TransformerSize,
    Window,
)

__all__ = ["size_of"]

Values = Mapping[str, Any]


def size_of(model_type: str, values: Values) -> TransformerSize:
    """The size that a configuration describes.

    Args:
        model_type: transformers' name of the architecture, e.g. "llama".
        values: the configuration's entries.

    Raises:
        UnsupportedError: an architecture for which there is no ready-made parallel program.
    """
    reader = _READERS.get(model_type)
    if reader is None:
        raise UnsupportedError(
            Text(
                "There is no ready-made parallel program for '{model_type}'.", model_type=model_type
            ),
            Text("There is one for: {names}.", names=", ".join(sorted(_READERS))),
            Text("Write a build() with your own parallelism and type: file.py:build"),
        )
    missing = [
        name
        for name in _NEEDED
        if model_type != "gpt2"
        and not values.get(name)
        and not (name == "intermediate_size" and values.get("moe_intermediate_size"))
    ]
    if missing:
        raise InvalidValueError(
            Text("The configuration has no '{name}'.", name=missing[0]),
            Text("A parallel program needs the model's sizes."),
            Text("Add it to the config.json."),
        )
    known = {name: value for name, value in values.items() if value is not None}
    return reader(known)


_NEEDED = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size")


def _gpt2(values: Values) -> TransformerSize:
    hidden, heads = values.get("n_embd", 768), values.get("n_head") or 12
    return TransformerSize(
        layers=values.get("n_layer", 12),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head=hidden // heads,
        ffn=values.get("n_inner") or 4 * hidden,
        vocabulary=values.get("vocab_size", 50257),
        context=values.get("n_positions", 1024),
        norm="layer",
        gated=False,
        activation="gelu_tanh",
        positions="learned",
        tied=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
    )


def _llama(values: Values, **more: Any) -> TransformerSize:
    hidden, heads = values["hidden_size"], values["num_attention_heads"]
    sizes: dict[str, Any] = {
        "layers": values["num_hidden_layers"],
        "hidden": hidden,
        "heads": heads,
        "kv_heads": values.get("num_key_value_heads") or heads,
        "head": values.get("head_dim") or hidden // heads,
        "ffn": values.get("intermediate_size") or values["moe_intermediate_size"],
        "vocabulary": values.get("vocab_size", 32000),
        "context": values.get("max_position_embeddings", 2048),
        "rope_base": values.get("rope_theta", 10000.0),
        "tied": values.get("tie_word_embeddings", False),
    }
    if values.get("attention_bias"):
        sizes.update(qkv_bias=True, out_bias=True)
    if values.get("mlp_bias"):
        sizes["mlp_bias"] = True
    return TransformerSize(**{**sizes, **more})


def _mixtral(values: Values) -> TransformerSize:
    experts = Experts(
        count=values.get("num_local_experts", 8),
        chosen=values.get("num_experts_per_tok", 2),
        ffn=values["intermediate_size"],
    )
    return _llama(values, experts=experts)


def _qwen2(values: Values) -> TransformerSize:
    return _llama(values, qkv_bias=True)


def _qwen3(values: Values) -> TransformerSize:
    return _llama(values, head_norm=True)


def _qwen3_moe(values: Values) -> TransformerSize:
    experts = Experts(
        count=values.get("num_experts", 128),
        chosen=values.get("num_experts_per_tok", 8),
        ffn=values.get("moe_intermediate_size", 768),
    )
    return _llama(values, head_norm=True, experts=experts)


def _phi3(values: Values) -> TransformerSize:
    return _llama(values, rope_share=values.get("partial_rotary_factor", 1.0))


def _deepseek(values: Values) -> TransformerSize:
    experts = Experts(
        count=values.get("n_routed_experts", 256),
        chosen=values.get("num_experts_per_tok", 8),
        ffn=values.get("moe_intermediate_size", 2048),
        shared_ffn=values.get("n_shared_experts", 1) * values.get("moe_intermediate_size", 2048),
        dense_layers=values.get("first_k_dense_replace", 3),
    )
    latent = LatentAttention(
        query_rank=values.get("q_lora_rank") or 0,
        key_rank=values.get("kv_lora_rank", 512),
        plain_head=values.get("qk_nope_head_dim", 128),
        rope_head=values.get("qk_rope_head_dim", 64),
        value_head=values.get("v_head_dim", 128),
    )
    return _llama(values, experts=experts, latent=latent, head=latent.plain_head)


def _sparse(values: Values, heads: int) -> TransformerSize:
    """DeepSeek's sparse attention: an indexer in front of latent attention."""
    sparse = SparseAttention(
        heads=values.get("index_n_heads", heads),
        head=values.get("index_head_dim", 128),
        chosen=values.get("index_topk", 2048),
    )
    return replace(_deepseek(values), sparse=sparse)


def _every(values: Values, kind: str, default: int) -> int:
    """Of how many blocks one is of that kind, where the kinds are listed; 0: none is."""
    kinds = values.get("layer_types")
    if not isinstance(kinds, list):
        return default
    count = sum(each == kind for each in kinds)
    return round(len(kinds) / count) if count else 0


def _windowed(values: Values, every: int, **more: Any) -> TransformerSize:
    tokens, every = values.get("sliding_window"), _every(values, "full_attention", every)
    if isinstance(tokens, int) and tokens > 0 and every != 1:
        more["window"] = Window(tokens=tokens, every=every)
    return _llama(values, **more)


def _mistral(values: Values) -> TransformerSize:
    return _windowed(values, 0)


def _gpt_oss(values: Values) -> TransformerSize:
    experts = Experts(
        count=values.get("num_local_experts", 128),
        chosen=values.get("num_experts_per_tok", 4),
        ffn=values["intermediate_size"],
        limit=values.get("swiglu_limit", 7.0),
    )
    longer = (values.get("rope_scaling") or {}).get("factor", 32.0)
    biases = {"qkv_bias": True, "out_bias": True, "mlp_bias": True}
    return _windowed(values, 2, experts=experts, rope_factor=1 + 0.1 * log(longer), **biases)


def _gemma(values: Values, every: int) -> TransformerSize:
    gemma = {"tie_word_embeddings": True, "head_dim": 256, "sliding_window": 4096, **values}
    return _windowed(gemma, every, activation="gelu_tanh", head_norm=every > 2, result_norm=True)


def _minimax_m2(values: Values) -> TransformerSize:
    experts = Experts(
        count=values.get("num_local_experts", 256),
        chosen=values.get("num_experts_per_tok", 8),
        ffn=values["intermediate_size"],
    )
    return _llama(values, head_norm=True, experts=experts)


def _qwen3_next(values: Values) -> TransformerSize:
    experts = Experts(
        count=values.get("num_experts", 512),
        chosen=values.get("num_experts_per_tok", 10),
        ffn=values.get("moe_intermediate_size", 512),
        shared_ffn=values.get("shared_expert_intermediate_size", 512),
        shared_gate=True,
    )
    linear = LinearAttention(
        key_heads=values.get("linear_num_key_heads", 16),
        value_heads=values.get("linear_num_value_heads", 32),
        key_head=values.get("linear_key_head_dim", 128),
        value_head=values.get("linear_value_head_dim", 128),
        convolution=values.get("linear_conv_kernel_dim", 4),
        every=_every(values, "full_attention", values.get("full_attention_interval", 4)),
    )
    return _llama(
        {"head_dim": 256, **values}, head_norm=True, experts=experts, linear=linear,
        attention_gate=True, rope_share=values.get("partial_rotary_factor", 0.25),
    )  # fmt: skip


def _nemotron_h(values: Values) -> TransformerSize:
    """A hybrid (NemotronHConfig): state-space mixers, attention, feed-forward parts, experts."""
    pattern = str(values["hybrid_override_pattern"])
    experts = None
    if "E" in pattern:
        ffn = values["moe_intermediate_size"]
        experts = Experts(
            count=values.get("n_routed_experts", 128),
            chosen=values.get("num_experts_per_tok", 6),
            ffn=ffn,
            shared_ffn=values.get("moe_shared_expert_intermediate_size", ffn),
        )
    states = StateSpace(
        heads=values.get("mamba_num_heads", 128),
        head=values.get("mamba_head_dim", 64),
        state=values.get("ssm_state_size", 128),
        groups=values.get("n_groups", 8),
        convolution=values.get("conv_kernel", 4),
        chunk=values.get("chunk_size", 128),
    )
    head = values.get("head_dim") or values.get("attention_head_dim") or 128
    return _llama(
        {**values, "head_dim": head, "num_hidden_layers": len(pattern)}, gated=False,
        activation="relu2", positions="none", experts=experts, states=states, pattern=pattern,
    )  # fmt: skip


_READERS: Mapping[str, Callable[[Values], TransformerSize]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "phi3": _phi3,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": partial(_sparse, heads=64),
    "glm_moe_dsa": partial(_sparse, heads=32),
    "gpt_oss": _gpt_oss,
    "gemma2": partial(_gemma, every=2),
    "gemma3": partial(_gemma, every=6),
    "gemma3_text": partial(_gemma, every=6),
    "minimax_m2": _minimax_m2,
    "nemotron_h": _nemotron_h,
    "qwen3_next": _qwen3_next,
    "qwen3_5_moe_text": _qwen3_next,
}
