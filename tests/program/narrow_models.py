"""Narrow forms of the built-in language models, to be really run on the CPU."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from gpuscope.program.models import Settings, WorkloadOptions, find
from gpuscope.program.models.settle import settle
from gpuscope.program.models.transformers_spec import TransformersSpec

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

NARROW: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 64},
    "llama-3.1-8b": {},
    "mistral-7b": {},
    "mistral-nemo-12b": {},
    "mixtral-8x7b": {},
    "qwen2.5-7b": {},
    "qwen3-8b": {},
    "qwen3-30b-a3b": {"moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2},
    "deepseek-v3": {
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
        "n_routed_experts": 16,
        "n_group": 4,
        "topk_group": 2,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    },
    "gemma-2-2b": {"sliding_window": 8},
    "gemma-3-1b": {"sliding_window": 8, "num_hidden_layers": 6},
    "phi-3-mini": {"pad_token_id": 0, "sliding_window": 8},
}

LLAMA_LIKE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 64,
    "num_hidden_layers": 2,
}


def narrow(name: str) -> TransformersSpec:
    spec = find(name).build.__self__  # type: ignore[attr-defined]
    assert isinstance(spec, TransformersSpec)
    if name == "gpt2":
        values = {**spec.values, **NARROW[name], "n_layer": 2}
    else:
        values = {**spec.values, **LLAMA_LIKE, **NARROW[name]}
        if name == "phi-3-mini":
            values.pop("head_dim")
    return dataclasses.replace(spec, values=values)


def small(name: str, **options: Any) -> Settings:
    sizes = {"batch": 2, "seq": 16, "context": 16}
    model = find(name)
    task = options.get("task") or next(iter(model.tasks))
    used = {k: v for k, v in sizes.items() if k == "batch" or getattr(model.tasks[task], k)}
    return settle(model, WorkloadOptions(**{**used, "device": "cpu", **options}))


def step_of(name: str, **options: Any) -> Callable[[], Any]:
    find(name).load()
    return narrow(name).build(small(name, **options))
