"""Decoders that training or serving tables are published for, without code of their own here.

Known by size alone: they can be asked for by name as ready-made parallel programs, and be served.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.parallel.configurations import size_of
from gpuscope.program.models.parallel.size import Experts, LatentAttention, TransformerSize
from gpuscope.program.models.registry import Model, Step
from gpuscope.program.models.settings import Defaults, Settings

__all__ = ["PUBLISHED", "published_model", "sized_model"]


def _gpt(layers: int, hidden: int, heads: int, **more: object) -> TransformerSize:
    """GPT-3's shape (Brown et al. 2020): learned positions, biases, a tied embedding."""
    base = TransformerSize(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head=hidden // heads,
        ffn=4 * hidden,
        vocabulary=51200,
        context=2048,
        norm="layer",
        gated=False,
        activation="gelu",
        positions="learned",
        tied=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
    )
    return replace(base, **more)  # type: ignore[arg-type]


# Narayanan et al. 2021 (arXiv:2104.04473), table 1; 51,200 words and 2,048 tokens as there.
_MEGATRON = {
    "gpt-1.7b": _gpt(24, 2304, 24),
    "gpt-3.6b": _gpt(30, 3072, 32),
    "gpt-7.5b": _gpt(36, 4096, 32),
    "gpt-18b": _gpt(40, 6144, 48),
    "gpt-39b": _gpt(48, 8192, 64),
    "gpt-76b": _gpt(60, 10240, 80),
    "gpt-145b": _gpt(80, 12288, 96),
    "gpt-310b": _gpt(96, 16384, 128),
    "gpt-530b": _gpt(105, 20480, 128),
    "gpt-1t": _gpt(128, 25600, 160),
    "gpt-3-175b": _gpt(96, 12288, 96),
    "gpt-22b": _gpt(48, 6144, 64),
    # NVIDIA NeMo's GPT-3 recipes of 5 and 20 billion.
    "gpt-3-5b": _gpt(24, 4096, 32),
    "gpt-3-20b": _gpt(44, 6144, 48),
}

# MosaicML LLM Foundry, scripts/train/yamls/pretrain/mpt-*.yaml: 50,368 words.
_MPT = {
    f"mpt-{name}": _gpt(layers, hidden, heads, vocabulary=50368)
    for name, layers, hidden, heads in (
        ("125m", 12, 768, 12),
        ("350m", 24, 1024, 16),
        ("760m", 24, 1536, 12),
        ("1b", 24, 2048, 16),
        ("3b", 32, 2560, 20),
        ("7b", 32, 4096, 32),
        ("13b", 40, 5120, 40),
        ("30b", 48, 7168, 56),
        ("70b", 80, 8192, 64),
    )
}


def _nemotron(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int) -> TransformerSize:
    """Nemotron-4 (arXiv:2402.16819, arXiv:2406.11704): squared ReLU, half of a head rotated."""
    return TransformerSize(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head=hidden // heads,
        ffn=ffn,
        vocabulary=256000,
        context=4096,
        norm="layer",
        gated=False,
        activation="relu2",
        rope_share=0.5,
    )


_OTHERS = {
    "nemotron-4-15b": _nemotron(32, 6144, 48, 8, 24576),
    "nemotron-4-340b": _nemotron(96, 18432, 96, 8, 73728),
    "nemotron-3-8b": replace(_nemotron(32, 4096, 32, 32, 16384), activation="relu2"),
    # config.json of codellama/CodeLlama-34b-hf: the shape of the 34-billion Llama 2.
    "llama-2-34b": TransformerSize(
        layers=48,
        hidden=8192,
        heads=64,
        kv_heads=8,
        head=128,
        ffn=22016,
        vocabulary=32000,
        context=4096,
    ),
    # config.json of deepseek-ai/DeepSeek-V2.
    "deepseek-v2": TransformerSize(
        layers=60,
        hidden=5120,
        heads=128,
        kv_heads=128,
        head=128,
        ffn=12288,
        vocabulary=102400,
        context=4096,
        experts=Experts(count=160, chosen=6, ffn=1536, shared_ffn=3072, dense_layers=1),
        latent=LatentAttention(
            query_rank=1536, key_rank=512, plain_head=128, rope_head=64, value_head=128
        ),
    ),
    # config.json of moonshotai/Kimi-K2-Base.
    "kimi-k2": TransformerSize(
        layers=61,
        hidden=7168,
        heads=64,
        kv_heads=64,
        head=128,
        ffn=18432,
        vocabulary=163840,
        context=4096,
        experts=Experts(count=384, chosen=8, ffn=2048, shared_ffn=2048, dense_layers=1),
        latent=LatentAttention(
            query_rank=1536, key_rank=512, plain_head=128, rope_head=64, value_head=128
        ),
    ),
}


def _table(name: str) -> dict[str, TransformerSize]:
    table = tomllib.loads(files(__package__).joinpath(name).read_text("utf-8"))
    return {name: size_of(values["kind"], values) for name, values in table.items()}


PUBLISHED: Mapping[str, TransformerSize] = {
    **_MEGATRON,
    **_MPT,
    **_OTHERS,
    **_table("served.toml"),
    **_table("hybrids.toml"),
}
"""Sizes by name."""


def published_model(name: str) -> Model | None:
    """A model that has nothing but its size; None for other names.

    Args:
        name: of `PUBLISHED`; case and separators do not matter.
    """
    wanted = _key(name)
    found = next((known for known in PUBLISHED if _key(known) == wanted), None)
    if found is None:
        return None
    return sized_model(found, PUBLISHED[found])


def sized_model(name: str, size: TransformerSize) -> Model:
    """A model that has nothing but its size: it can be trained in a parallel job.

    Args:
        name: what to call it.
        size: any decoder.
    """
    return Model(
        name=name,
        family="published",
        description=Text(
            "decoder, {layers} layers of {hidden}", layers=size.layers, hidden=size.hidden
        ),
        parameters=size.parameters,
        tasks={"train": Defaults(batch=1, seq=size.context, optimizer="adamw")},
        load=lambda: None,
        build=_no_build,
        size=lambda: size,
    )


def _key(name: str) -> str:
    return re.sub(r"[-_/:\s]", "", name.lower())


def _no_build(settings: Settings) -> Step:
    raise InvalidValueError(
        Text("This model is known by its size alone."),
        Text("It has no code outside of a parallel job."),
        Text("Give it parallel options, for example: --dp 1"),
    )
