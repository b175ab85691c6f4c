"""Mistral 7B and the Mixtral mixtures of experts.

Sizes: config.json of mistralai/Mistral-7B-v0.3, Mixtral-8x7B-v0.1 and Mixtral-8x22B-v0.1 on the
Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.transformers_spec import (
    MOE_NOTE,
    TransformersSpec,
    causal_model,
    language_tasks,
)

register(
    causal_model(
        TransformersSpec(
            package="mistral",
            config="MistralConfig",
            model="MistralForCausalLM",
            values={
                "vocab_size": 32768,
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "max_position_embeddings": 32768,
                "rms_norm_eps": 1e-5,
                "rope_theta": 1e6,
                "sliding_window": None,
            },
        ),
        name="mistral-7b",
        family="Mistral",
        description=Text("decoder, 32 layers of 4096, 8 key-value heads"),
        parameters=7_248_023_552,
        tasks=language_tasks(train_batch=1, seq=2048),
        aliases=("mistral-7b-v0.3", "mistral-7b-instruct", "mistral-7b-instruct-v0.3"),
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
                values={
                    "vocab_size": _vocabulary,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": 8,
                    "head_dim": 128,
                    "num_local_experts": 8,
                    "num_experts_per_tok": 2,
                    "max_position_embeddings": _positions,
                    "rms_norm_eps": 1e-5,
                    "rope_theta": 1e6,
                    "sliding_window": None,
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
