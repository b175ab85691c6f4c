"""Llama 2, 3.1 and 3.2.

Sizes: config.json of meta-llama/Llama-2-*-hf, Llama-3.1-* and Llama-3.2-* on the Hugging Face hub.
"""

from collections.abc import Mapping

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.transformers_spec import TransformersSpec, causal_model, language_tasks

_LLAMA_2: Mapping[str, object] = {
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}


def _llama_3(factor: float, tied: bool) -> dict[str, object]:
    return {
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
        "tie_word_embeddings": tied,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }


# name, generation, hidden, feed-forward, layers, heads, key-value heads, head size, parameters
_SIZES = (
    ("llama-2-7b", _LLAMA_2, 4096, 11008, 32, 32, 32, 128, 6_738_415_616),
    ("llama-2-13b", _LLAMA_2, 5120, 13824, 40, 40, 40, 128, 13_015_864_320),
    ("llama-2-70b", _LLAMA_2, 8192, 28672, 80, 64, 8, 128, 68_976_648_192),
    ("llama-3.2-1b", _llama_3(32.0, True), 2048, 8192, 16, 32, 8, 64, 1_235_814_400),
    ("llama-3.2-3b", _llama_3(32.0, True), 3072, 8192, 28, 24, 8, 128, 3_212_749_824),
    ("llama-3.1-8b", _llama_3(8.0, False), 4096, 14336, 32, 32, 8, 128, 8_030_261_248),
    ("llama-3.1-70b", _llama_3(8.0, False), 8192, 28672, 80, 64, 8, 128, 70_553_706_496),
    ("llama-3.1-405b", _llama_3(8.0, False), 16384, 53248, 126, 128, 8, 128, 405_853_388_800),
)

_ALIASES = {
    "llama-2-7b": ("llama2-7b-hf",),
    "llama-2-13b": ("llama2-13b-hf",),
    "llama-2-70b": ("llama2-70b-hf",),
    "llama-3.1-8b": ("llama-3-8b", "llama-8b", "llama-3.1-8b-instruct", "meta-llama-3-8b"),
    "llama-3.1-70b": (
        "llama-3-70b",
        "llama-70b",
        "llama-3.1-70b-instruct",
        "llama-3.3-70b",
        "llama-3.3-70b-instruct",
        "meta-llama-3-70b",
    ),
    "llama-3.1-405b": ("llama-3-405b", "llama-405b", "llama-3.1-405b-instruct"),
    "llama-3.2-1b": ("llama-1b", "llama-3.2-1b-instruct"),
    "llama-3.2-3b": ("llama-3b", "llama-3.2-3b-instruct"),
}

for _name, _base, _hidden, _ffn, _layers, _heads, _kv, _head, _parameters in _SIZES:
    register(
        causal_model(
            TransformersSpec(
                package="llama",
                config="LlamaConfig",
                model="LlamaForCausalLM",
                values={
                    **_base,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": _kv,
                    "head_dim": _head,
                },
            ),
            name=_name,
            family="Llama",
            description=Text(
                "decoder, {layers} layers of {hidden}, {kv} key-value heads",
                layers=_layers,
                hidden=_hidden,
                kv=_kv,
            ),
            parameters=_parameters,
            tasks=language_tasks(
                train_batch=4 if _parameters < 2e9 else 1, seq=4096 if _base is _LLAMA_2 else 2048
            ),
            aliases=_ALIASES[_name],
        )
    )
