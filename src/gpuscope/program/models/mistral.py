"""Mistral 7B and Nemo, and the Mixtral mixtures of experts.

Sizes: config.json of mistralai/Mistral-7B-v0.3, Mistral-Nemo-Base-2407, Mixtral-8x7B-v0.1 and
Mixtral-8x22B-v0.1 on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.transformers_spec import (
    MOE_NOTE,
    TransformersSpec,
    causal_model,
    language_tasks,
)

_ALIKE = {
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e6,
    "sliding_window": None,
}
"""What all of their configurations have."""

# name, hidden, layers, vocabulary, positions, parameters, other names
_MISTRALS = (
    (
        "mistral-7b", 4096, 32, 32768, 32768, 7_248_023_552,
        ("mistral-7b-v0.3", "mistral-7b-instruct", "mistral-7b-instruct-v0.3"),
    ),
    (
        "mistral-nemo-12b", 5120, 40, 131072, 1024000, 12_247_782_400,
        ("mistral-nemo", "mistral-nemo-2407", "mistral-nemo-instruct-2407"),
    ),
)  # fmt: skip

for _name, _hidden, _layers, _vocabulary, _positions, _parameters, _aliases in _MISTRALS:
    register(
        causal_model(
            TransformersSpec(
                package="mistral",
                config="MistralConfig",
                model="MistralForCausalLM",
                values=_ALIKE
                | {
                    "vocab_size": _vocabulary,
                    "hidden_size": _hidden,
                    "intermediate_size": 14336,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": 32,
                    "max_position_embeddings": _positions,
                },
            ),
            name=_name,
            family="Mistral",
            description=Text(
                "decoder, {layers} layers of {hidden}, 8 key-value heads",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=1, seq=2048),
            aliases=_aliases,
        )
    )

# name, hidden, feed-forward of an expert, layers, heads, vocabulary, positions, parameters
_MIXTRALS = (
    ("mixtral-8x7b", 4096, 14336, 32, 32, 32000, 32768, 46_702_792_704),
    ("mixtral-8x22b", 6144, 16384, 56, 48, 32000, 65536, 140_620_634_112),
)

for _name, _hidden, _ffn, _layers, _heads, _vocabulary, _positions, _parameters in _MIXTRALS:
    register(
        causal_model(
            TransformersSpec(
                package="mixtral",
                config="MixtralConfig",
                model="MixtralForCausalLM",
                values=_ALIKE
                | {
                    "vocab_size": _vocabulary,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "max_position_embeddings": _positions,
                    "num_local_experts": 8,
                    "num_experts_per_tok": 2,
                },
            ),
            name=_name,
            family="Mixtral",
            description=Text(
                "decoder, {layers} layers of {hidden}, 2 of 8 experts",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=1, seq=2048),
            aliases=(f"{_name}-v0.1", f"{_name}-instruct", f"{_name}-instruct-v0.1"),
            fp8=False,
            notes=(MOE_NOTE,),
        )
    )
