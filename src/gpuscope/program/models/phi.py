"""Phi-3-mini and Phi-4.

Sizes: config.json of microsoft/Phi-3-mini-4k-instruct and microsoft/phi-4 on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.settings import ATTENTIONS
from gpuscope.program.models.transformers_spec import TransformersSpec, causal_model, language_tasks

# name, hidden, feed-forward, layers, heads, key-value heads, vocabulary, positions, window,
# rotary base, parameters, aliases
_SIZES = (
    (
        "phi-3-mini",
        3072,
        8192,
        32,
        32,
        32,
        32064,
        4096,
        2047,
        10000.0,
        3_821_079_552,
        ("phi-3-mini-4k", "phi-3-mini-4k-instruct"),
    ),
    (
        "phi-4",
        5120,
        17920,
        40,
        40,
        10,
        100352,
        16384,
        None,
        250000.0,
        14_659_507_200,
        ("phi-4-14b",),
    ),
)

for (
    _name,
    _hidden,
    _ffn,
    _layers,
    _heads,
    _kv,
    _vocabulary,
    _positions,
    _window,
    _theta,
    _parameters,
    _aliases,
) in _SIZES:
    register(
        causal_model(
            TransformersSpec(
                package="phi3",
                config="Phi3Config",
                model="Phi3ForCausalLM",
                values={
                    "vocab_size": _vocabulary,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": _kv,
                    "max_position_embeddings": _positions,
                    "original_max_position_embeddings": _positions,
                    "sliding_window": _window,
                    "rms_norm_eps": 1e-5,
                    "rope_theta": _theta,
                },
            ),
            name=_name,
            family="Phi",
            description=Text(
                "decoder, {layers} layers of {hidden}, {kv} key-value heads",
                layers=_layers,
                hidden=_hidden,
                kv=_kv,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=1, seq=2048),
            aliases=_aliases,
            # flash takes no mask, and a window needs one
            attentions=ATTENTIONS if _window is None else ("sdpa", "eager"),
        )
    )
