"""The smallest configuration of an architecture, made from its configuration class alone.

A level says how much is made smaller. The widths of an architecture hang together in ways that
its class does not tell (heads times their size, windows, groups of experts), so that the first
level that runs for real on the CPU is taken; `levels.json` keeps which.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

LEVELS = ("fixed", "eighth", "wide", "layers")
"""fixed: every width a small number; eighth: widths and heads divided by 8, a head's size kept;
wide: widths kept; layers: pictures, experts and positions kept, too."""

VOCABULARY = 512
SIZES = {"heads": 4, "key value heads": 2, "head": 16, "rank": 32, "inner": 128, "width": 64}
"""Of the level "fixed"; `on_gpu.py` takes larger ones."""

_LAYERS = re.compile(
    r"^(n|num|encoder|decoder|num_hidden|num_encoder|num_decoder|depth|xlm_)?_?(layers?|depth|blocks)"
    r"$|^(num|n)_\w*layers?$|^\w+_(layers|depth)$|^depth$"
)
_HEADS = re.compile(r"^(n|num)_\w*heads?$|^\w*attention_heads$|^n_head$|^num_heads$")
_HEAD = re.compile(r"^\w*head_dim$|^d_kv$|^d_head$|^attention_head_size$")
_INNER = re.compile(
    r"intermediate_size$|ffn_dim$|^d_ff$|^n_inner$|mlp_dim$|^ffn_\w*size$|^d_inner$"
)
_WIDTH = re.compile(
    r"hidden_size$|^d_model$|^n_embd$|^embed_dim$|^dim$|hidden_dim$|^projection_dim$|^width$"
    r"|^embedding_size$|out_hidden_size$"
)
_EXPERTS = re.compile(
    r"^(num|n|moe_num|num_local|n_routed)_?(routed_|local_)?experts$|num_experts$"
)
_CHOSEN = re.compile(r"experts_per_tok|top_?k$|top_k_\w*|num_experts_per_token")
_GROUPS = re.compile(r"^n_group$|^topk_group$")
_POSITIONS = re.compile(r"max_position_embeddings$|^n_positions$|^n_ctx$|max_\w+_positions$")
_TOKEN = re.compile(r"_token_(id|index)$|_token_ids$|^(pad|bos|eos|boi|eoi)_token_index$")
_RANK = re.compile(r"lora_rank$")


def shrunk(config: type, level: str, **given: Any) -> Any:
    """An instance of `config`, small, its parts too; `given` overrides."""
    return config(**(arguments(config, level) | given))


def arguments(config: type, level: str) -> dict[str, Any]:
    """Keyword arguments that make a `config` small."""
    found: dict[str, Any] = {}
    parts = getattr(config, "sub_configs", {}) or {}
    defaults = {
        name: each.default
        for name, each in inspect.signature(config.__init__).parameters.items()
        if each.kind is each.KEYWORD_ONLY and each.default is not each.empty
    }
    for name, default in defaults.items():
        part = parts.get(name)
        if part is not None and part.__name__ != "AutoConfig":
            found[name] = arguments(part, level)
        else:
            small = _small(name, default, level, defaults)
            if small is not None and small != default:
                found[name] = small
    return found


def _small(name: str, value: Any, level: str, beside: dict[str, Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        return None
    if isinstance(value, (list, tuple)):
        return _small_list(name, value)
    if _TOKEN.search(name):
        return value if value < VOCABULARY else 400 + value % 100
    if name.endswith("vocab_size"):
        return min(value, VOCABULARY)
    if _LAYERS.search(name):
        return min(value, 2)
    if level == "layers":
        return None
    if _EXPERTS.search(name):
        return min(value, 4)
    if _CHOSEN.search(name):
        return min(value, 2)
    if _GROUPS.search(name):
        return 1
    if _POSITIONS.search(name):
        return min(value, VOCABULARY)
    if name == "image_size":
        patch = beside.get("patch_size")
        return min(value, 4 * patch if isinstance(patch, int) else 64)
    return None if level == "wide" else _narrow(name, value, level, beside)


def _narrow(name: str, value: int, level: str, beside: dict[str, Any]) -> int | None:
    eighth = level == "eighth"
    if _HEADS.search(name):
        if eighth:
            return max(value // 8, 1)
        full = max(v for k, v in beside.items() if _HEADS.search(k) and isinstance(v, int))
        if "key_value" in name and value != full:
            return min(value, SIZES["key value heads"])
        return SIZES["heads"]
    if _HEAD.search(name):
        return value if eighth else SIZES["head"]
    if _RANK.search(name):
        return max(value // 8, 8) if eighth else SIZES["rank"]
    if _INNER.search(name):
        return max(value // 8, 16) if eighth else SIZES["inner"]
    if _WIDTH.search(name):
        return max(value // 8, 8) if eighth else SIZES["width"]
    return None


def _small_list(name: str, value: Any) -> Any:
    if name in ("depths", "layers_per_stage") and all(isinstance(v, int) for v in value):
        return type(value)(min(v, 1 if i else 2) for i, v in enumerate(value))
    return None
