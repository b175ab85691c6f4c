"""Gemma 2 and the text part of Gemma 3.

Sizes: config.json of google/gemma-2-* and google/gemma-3-*-pt on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.transformers_spec import TransformersSpec, causal_model, language_tasks

# size, hidden, feed-forward, layers, heads, key-value heads, head size, attention scale, parameters
_GEMMA2 = (
    ("2b", 2304, 9216, 26, 8, 4, 256, 256, 2_614_341_888),
    ("9b", 3584, 14336, 42, 16, 8, 256, 256, 9_241_705_984),
    ("27b", 4608, 36864, 46, 32, 16, 128, 144, 27_227_128_320),
)

for _size, _hidden, _ffn, _layers, _heads, _kv, _head, _scale, _parameters in _GEMMA2:
    register(
        causal_model(
            TransformersSpec(
                package="gemma2",
                config="Gemma2Config",
                model="Gemma2ForCausalLM",
                values={
                    "vocab_size": 256000,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": _kv,
                    "head_dim": _head,
                    "query_pre_attn_scalar": _scale,
                    "sliding_window": 4096,
                    "max_position_embeddings": 8192,
                    "final_logit_softcapping": 30.0,
                    "attn_logit_softcapping": 50.0,
                },
            ),
            name=f"gemma-2-{_size}",
            family="Gemma",
            description=Text(
                "decoder, {layers} layers of {hidden}, every other with a window",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=1, seq=2048),
            aliases=(f"gemma-2-{_size}-it",),
            attentions=("sdpa", "eager"),
            notes=(
                Text(
                    "attention is transformers' own choice, a fused kernel that leaves out the "
                    "soft cap on its logits; --attention eager keeps it"
                ),
            ),
        )
    )

# size, hidden, feed-forward, layers, heads, key-value heads, head size, attention scale, window,
# vocabulary, parameters
_GEMMA3 = (
    ("270m", 640, 2048, 18, 4, 1, 256, 256, 512, 262144, 268_098_176),
    ("1b", 1152, 6912, 26, 4, 1, 256, 256, 512, 262144, 999_885_952),
    ("4b", 2560, 10240, 34, 8, 4, 256, 256, 1024, 262208, 3_880_263_168),
    ("12b", 3840, 15360, 48, 16, 8, 256, 256, 1024, 262208, 11_766_034_176),
    ("27b", 5376, 21504, 62, 32, 16, 128, 168, 1024, 262208, 27_009_346_304),
)

for (
    _size,
    _hidden,
    _ffn,
    _layers,
    _heads,
    _kv,
    _head,
    _scale,
    _window,
    _vocabulary,
    _parameters,
) in _GEMMA3:
    register(
        causal_model(
            TransformersSpec(
                package="gemma3",
                config="Gemma3TextConfig",
                model="Gemma3ForCausalLM",
                values={
                    "vocab_size": _vocabulary,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": _kv,
                    "head_dim": _head,
                    "query_pre_attn_scalar": _scale,
                    "sliding_window": _window,
                    "max_position_embeddings": 32768,
                },
            ),
            name=f"gemma-3-{_size}",
            family="Gemma",
            description=Text(
                "decoder, {layers} layers of {hidden}, five of six with a window",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=1, seq=2048),
            aliases=(f"gemma-3-{_size}-it", f"gemma-3-{_size}-text"),
            attentions=("sdpa", "eager"),  # flash takes no mask, and windows need one
            notes=(Text("the text part alone, without the image encoder"),) if _layers > 26 else (),
        )
    )
