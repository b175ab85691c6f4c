"""Which decoder stands for the model that a row prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gpuscope.program.models import find
from gpuscope.program.models.parallel.published import PUBLISHED, published_model
from gpuscope.program.models.parallel.size import TransformerSize
from published.rows import Row

NAMES: Mapping[str, str] = {
    "LLAMA3_8B": "llama-3.1-8b",
    "LLAMA3_70B": "llama-3.1-70b",
    "LLAMA3.1_405B": "llama-3.1-405b",
    "LLAMA3-8B": "llama-3.1-8b",
    "LLAMA2-7B": "llama-2-7b",
    "LLAMA2-70B": "llama-2-70b",
    "Llama2-34b": "llama-2-34b",
    "Llama2-70b": "llama-2-70b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3.1-405B": "llama-3.1-405b",
    "Llama-2-7B": "llama-2-7b",
    "Mixtral-8x22B": "mixtral-8x22b",
    "GPT3-5B": "gpt-3-5b",
    "GPT3-20B": "gpt-3-20b",
    "GPT3-175B": "gpt-3-175b",
    "GPT-3-175B": "gpt-3-175b",
    "Nemotron-8B": "nemotron-3-8b",
    "turing-530B": "gpt-530b",
    "DeepSeekV3": "deepseek-v3",
    "DeepSeekV3 (dropless)": "deepseek-v3",
    "DeepSeekV3 (tokendrop)": "deepseek-v3",
    "DeepSeekV3 (w/o MTP)": "deepseek-v3",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "Qwen3_30B_a3B (tokendrop)": "qwen3-30b-a3b",
    "Qwen3_235B_a22B (tokendrop)": "qwen3-235b-a22b",
    "Kimi_K2": "kimi-k2",
    "Llama 2 70B": "llama-2-70b",
    "Llama 3.1 8B": "llama-3.1-8b",
    "Llama 3.1 405B": "llama-3.1-405b",
    "Mixtral 8X22B": "mixtral-8x22b",
    "Mixtral 8X7B": "mixtral-8x7b",
    "Llama2-70B-MaxText": "llama-2-70b",
    "Llama3.1-405B-MaxText": "llama-3.1-405b",
    "Llama3.1-70B-MaxText": "llama-3.1-70b",
    "Llama3.1-8B-MaxText": "llama-3.1-8b",
    "Mixtral-8x7B-MaxText": "mixtral-8x7b",
    "Mistral-7B-MaxText": "mistral-7b",
    "GPT3-175B-MaxText": "gpt-3-175b",
    "GPT OSS 120B": "gpt-oss-120b",
}
"""Names of the catalogue of models by what a row prints."""

_CUT = re.compile(r"(llama3-70b|llama3-405b|deepseekv2|deepseekv3) truncated to (\d+) layers")
_CUT_NAMES = {
    "llama3-70b": "llama-3.1-70b",
    "llama3-405b": "llama-3.1-405b",
    "deepseekv2": "deepseek-v2",
    "deepseekv3": "deepseek-v3",
}


_SCALED = re.compile(r"MaxText (16|32|64)B")
"""Decoders of MaxText's own table, named by their scale. 22B and 52B are left out: their scripts'
sizes under the present defaults are not those of their names; 128B is tensor parallel."""


def size_of(row: Row) -> TransformerSize | None:
    """The decoder; None where its numbers are not known."""
    if row.shape is not None:
        return _shaped(row)
    scaled = _SCALED.fullmatch(row.model)
    if scaled is not None:
        return scaled_size(int(scaled[1]))
    if row.model.startswith("MPT-"):
        return replace(PUBLISHED[row.model.lower()], context=row.seq or 2048)
    if row.model.startswith("GPT"):
        return _gpt(row)
    cut = _CUT.fullmatch(row.model)
    if cut is not None:
        whole = _named(_CUT_NAMES[cut[1]])
        return None if whole is None else whole.deep(int(cut[2]))
    return _named(NAMES[row.model]) if row.model in NAMES else None


def scaled_size(scale: int) -> TransformerSize:
    """The decoder of a scale, 16, 32 or 64.

    `global_parameter_scale` multiplies the sizes of configs/base.yml by powers of two
    (`get_individual_scales` in MaxText's configs).
    """
    whole, rest = divmod(scale.bit_length() - 1, 3)
    wide, deep, long = 2 ** (whole + (rest > 0)), 2**whole, 2 ** (whole + (rest > 1))
    return TransformerSize(
        layers=16 * deep,
        hidden=2048 * long,
        heads=16 * wide,
        kv_heads=16 * wide,
        head=128,
        ffn=7168 * wide,
        vocabulary=32000,
        context=2048,
    )


def _shaped(row: Row) -> TransformerSize:
    """A GPT of the sizes that a row prints; a published one where they are its."""
    assert row.shape is not None
    layers, hidden, heads, words = row.shape
    for known in PUBLISHED.values():
        if (known.layers, known.hidden, known.heads, known.vocabulary) == row.shape:
            return known
    return replace(
        PUBLISHED["gpt-3-175b"],
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head=hidden // heads,
        ffn=4 * hidden,
        vocabulary=words,
        context=row.seq or 2048,
        tied=False,
    )


def _gpt(row: Row) -> TransformerSize | None:
    """The GPT of a name, else of a number of parameters, printed to four digits ("529.6B")."""
    named = NAMES.get(row.model)
    if named is not None or row.params is None:
        return _named(named) if named is not None else PUBLISHED.get(row.model.lower())
    asked = float(row.params.removesuffix("B")) * 1e9
    gpts = [size for name, size in PUBLISHED.items() if name.startswith("gpt-")]
    nearest = min(gpts, key=lambda size: abs(size.parameters - asked))
    return nearest if abs(nearest.parameters / asked - 1) < 0.01 else None


def _named(name: str) -> TransformerSize | None:
    published = published_model(name)
    if published is not None and published.size is not None:
        return published.size()
    try:
        model = find(name)
    except Exception:
        return None
    return model.size() if model.size is not None else None
