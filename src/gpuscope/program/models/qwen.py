"""Qwen2.5, Qwen3 and the Qwen3 mixtures of experts.

Sizes: config.json of Qwen/Qwen2.5-* and Qwen/Qwen3-* on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.transformers_spec import (
    MOE_NOTE,
    TransformersSpec,
    causal_model,
    language_tasks,
)

# size, hidden, feed-forward, layers, heads, key-value heads, tied, vocabulary, parameters
_QWEN25 = (
    ("0.5b", 896, 4864, 24, 14, 2, True, 151936, 494_032_768),
    ("1.5b", 1536, 8960, 28, 12, 2, True, 151936, 1_543_714_304),
    ("3b", 2048, 11008, 36, 16, 2, True, 151936, 3_085_938_688),
    ("7b", 3584, 18944, 28, 28, 4, False, 152064, 7_615_616_512),
    ("14b", 5120, 13824, 48, 40, 8, False, 152064, 14_770_033_664),
    ("32b", 5120, 27648, 64, 40, 8, False, 152064, 32_763_876_352),
    ("72b", 8192, 29568, 80, 64, 8, False, 152064, 72_706_203_648),
)

for _size, _hidden, _ffn, _layers, _heads, _kv, _tied, _vocabulary, _parameters in _QWEN25:
    register(
        causal_model(
            TransformersSpec(
                package="qwen2",
                config="Qwen2Config",
                model="Qwen2ForCausalLM",
                values={
                    "vocab_size": _vocabulary,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": _kv,
                    "tie_word_embeddings": _tied,
                    "max_position_embeddings": 32768,
                    "rms_norm_eps": 1e-6,
                    "rope_theta": 1e6,
                },
            ),
            name=f"qwen2.5-{_size}",
            family="Qwen2.5",
            description=Text(
                "decoder, {layers} layers of {hidden}, {kv} key-value heads",
                layers=_layers,
                hidden=_hidden,
                kv=_kv,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=4 if _parameters < 2e9 else 1, seq=2048),
            aliases=(f"qwen2.5-{_size}-instruct",),
        )
    )

# size, hidden, feed-forward, layers, heads, tied, parameters
_QWEN3 = (
    ("0.6b", 1024, 3072, 28, 16, True, 596_049_920),
    ("1.7b", 2048, 6144, 28, 16, True, 1_720_574_976),
    ("4b", 2560, 9728, 36, 32, True, 4_022_468_096),
    ("8b", 4096, 12288, 36, 32, False, 8_190_735_360),
    ("14b", 5120, 17408, 40, 40, False, 14_768_307_200),
    ("32b", 5120, 25600, 64, 64, False, 32_762_123_264),
)

_QWEN3_SHARED = {
    "vocab_size": 151936,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
}

for _size, _hidden, _ffn, _layers, _heads, _tied, _parameters in _QWEN3:
    register(
        causal_model(
            TransformersSpec(
                package="qwen3",
                config="Qwen3Config",
                model="Qwen3ForCausalLM",
                values={
                    **_QWEN3_SHARED,
                    "hidden_size": _hidden,
                    "intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": 8,
                    "tie_word_embeddings": _tied,
                },
            ),
            name=f"qwen3-{_size}",
            family="Qwen3",
            description=Text(
                "decoder, {layers} layers of {hidden}, 8 key-value heads",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=4 if _parameters < 2e9 else 1, seq=2048),
        )
    )

# size, hidden, feed-forward of an expert, layers, heads, parameters
_QWEN3_MOE = (
    ("30b-a3b", 2048, 768, 48, 32, 30_532_122_624),
    ("235b-a22b", 4096, 1536, 94, 64, 235_093_634_560),
)

for _size, _hidden, _ffn, _layers, _heads, _parameters in _QWEN3_MOE:
    register(
        causal_model(
            TransformersSpec(
                package="qwen3_moe",
                config="Qwen3MoeConfig",
                model="Qwen3MoeForCausalLM",
                values={
                    **_QWEN3_SHARED,
                    "hidden_size": _hidden,
                    "intermediate_size": 3 * _hidden,
                    "moe_intermediate_size": _ffn,
                    "num_hidden_layers": _layers,
                    "num_attention_heads": _heads,
                    "num_key_value_heads": 4,
                    "num_experts": 128,
                    "num_experts_per_tok": 8,
                    "norm_topk_prob": True,
                    "decoder_sparse_step": 1,
                    "tie_word_embeddings": False,
                },
            ),
            name=f"qwen3-{_size}",
            family="Qwen3",
            description=Text(
                "decoder, {layers} layers of {hidden}, 8 of 128 experts",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=1, seq=2048),
            fp8=False,
            notes=(MOE_NOTE,),
        )
    )
