"""DeepSeek-V3: multi-head latent attention, 256 routed experts and a shared one.

Sizes: config.json of deepseek-ai/DeepSeek-V3 on the Hugging Face hub; the published weights are
float8, here they have the dtype asked for. The multi-token-prediction layer (the published total
of 685 billion counts it) is not part of a step.
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
            package="deepseek_v3",
            config="DeepseekV3Config",
            model="DeepseekV3ForCausalLM",
            values={
                "vocab_size": 129280,
                "hidden_size": 7168,
                "intermediate_size": 18432,
                "moe_intermediate_size": 2048,
                "num_hidden_layers": 61,
                "num_attention_heads": 128,
                "num_key_value_heads": 128,
                "n_shared_experts": 1,
                "n_routed_experts": 256,
                "num_experts_per_tok": 8,
                "n_group": 8,
                "topk_group": 4,
                "first_k_dense_replace": 3,
                "q_lora_rank": 1536,
                "kv_lora_rank": 512,
                "qk_nope_head_dim": 128,
                "qk_rope_head_dim": 64,
                "v_head_dim": 128,
                "routed_scaling_factor": 2.5,
                "norm_topk_prob": True,
                "rms_norm_eps": 1e-6,
                "max_position_embeddings": 163840,
                "rope_theta": 10000.0,
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 40.0,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "mscale": 1.0,
                    "mscale_all_dim": 1.0,
                    "original_max_position_embeddings": 4096,
                },
            },
            probe_cache=True,
        ),
        name="deepseek-v3",
        family="DeepSeek",
        description=Text("decoder, 61 layers of 7168, latent attention, 8 of 256 experts"),
        parameters=671_026_404_352,  # and 14,848 biases of the router, which are buffers here
        tasks=language_tasks(train_batch=1, seq=2048),
        aliases=("deepseek-v3-base", "deepseek-r1", "deepseek-v3-671b"),
        attentions=("sdpa", "eager"),  # flash wants keys and values of one size
        fp8=False,
        notes=(
            MOE_NOTE,
            Text(
                "latent attention as transformers writes it: keys and values are expanded from the"
                " latents for every head at every step"
            ),
        ),
    )
)
