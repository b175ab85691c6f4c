"""Kernels of inference servers by their function: vLLM, SGLang, FlashInfer, DeepGEMM and others.

From their sources: vllm-project/vllm (csrc, vllm/attention, fused_moe), sgl-project/sglang
(sgl-kernel), flashinfer-ai/flashinfer (include), deepseek-ai/DeepGEMM and DeepEP,
triton-lang/triton (triton_kernels), TimDettmers/bitsandbytes.
"""

from __future__ import annotations

from gpuscope.explain.kernel_names.functions import TYPE, Function
from gpuscope.explain.types import Words

SERVING: tuple[Function, ...] = (
    Function(
        r"paged_attention_v[12]_(reduce_)?kernel|paged_attention_ll4mi\w*",
        Words(
            "Attention of one new token over keys and values in pages (decoding).",
            "分页 KV 缓存上的解码注意力（每个新 token 一次）。",
        ),
        (TYPE,),
    ),
    Function(
        r"kernel_unified_attention_\dd|_fwd_grouped_kernel_stage\d|_fwd_kernel_stage\d"
        r"|_attn_fwd|attn_fwd|_decode_att_m_fwd",
        Words("Attention written in Triton.", "用 Triton 编写的注意力。"),
    ),
    Function(
        r"BatchPrefill\w*|BatchDecode\w*|SinglePrefill\w*|SingleDecode\w*|MergeStates?Kernel"
        r"|VariableLengthMergeStates\w*|PersistentVariableLength\w*",
        Words(
            "FlashInfer's attention over pages (prefill, decoding, or joining parts).",
            "FlashInfer 的分页注意力（预填充、解码或合并各部分）。",
        ),
    ),
    Function(
        r"reshape_and_cache\w*|store_kv_?cache|concat_and_cache_mla\w*|set_kv_buffer\w*",
        Words("Writes new keys and values into the cache.", "将新的键值写入 KV 缓存。"),
    ),
    Function(
        r"create_flashinfer_kv_indices_triton|\w*kv_indices\w*|copy_blocks_kernel",
        Words("Prepares or moves pages of the cache.", "准备或搬移 KV 缓存的页。"),
    ),
    Function(
        r"(batched_)?rotary_embedding_kernel|\w*rope\w*kernel\w*|BatchQKApplyRotary\w*",
        Words("Rotary position embedding of queries and keys.", "对查询和键做旋转位置编码。"),
        (TYPE,),
    ),
    Function(
        r"(fused_add_)?rms_norm\w*kernel|FusedAddRMSNorm\w*|RMSNormKernel|add_rmsnorm\w*",
        Words(
            "RMS norm (with the residual's addition where it is fused).",
            "RMS 归一化（融合时包含残差相加）。",
        ),
        (TYPE,),
    ),
    Function(
        r"fused_moe_kernel\w*|_matmul_ogs\w*|_p_matmul_ogs\w*|moe_\w*gemm\w*",
        Words(
            "Products of a mixture of experts, all experts in one launch.",
            "混合专家的矩阵乘，一次启动覆盖所有专家。",
        ),
    ),
    Function(
        r"act_and_mul_kernel|\w*silu_(and_)?mul\w*|\w*swiglu\w*|\w*geglu\w*",
        Words("Gated activation: act(x) × y in one kernel.", "门控激活：act(x) × y 合为一个内核。"),
        (TYPE,),
    ),
    Function(
        r"moe_align_block_size\w*|topkGating\w*|moe_sum\w*|_topk_forward|_sum_bitmatrix_rows"
        r"|_combined_routing\w*|_finalize_matmul\w*|count_and_sort_expert\w*|moe_fused_gate\w*",
        Words(
            "Routing of a mixture of experts: which token goes where.",
            "混合专家路由：决定 token 去向。",
        ),
    ),
    Function(
        r"(sm\d+_)?(fp8|bf16)_gemm_1d\dd\w*|sm\d+_\w*_gemm_impl|fp8_gemm_kernel",
        Words("DeepGEMM's product.", "DeepGEMM 的矩阵乘。"),
    ),
    Function(
        r"(dynamic_|static_)?(per_token_)?(scaled_)?(group_)?(fp8|int8)?_?quant\w*kernel\w*"
        r"|_per_token_group_quant\w*|per_token_group_quant\w*",
        Words(
            "Converts values to fewer bits, with their scales.", "量化为更少的位数并计算缩放因子。"
        ),
        (TYPE,),
    ),
    Function(
        r"marlin\w*|gptq_\w*|awq_\w*|dequantize_kernel|kgemm_4bit\w*|kQuantize\w*|kDequantize\w*",
        Words("Product with, or conversion of, quantized weights.", "量化权重的矩阵乘或转换。"),
    ),
    Function(
        r"deep_ep::(?:\w+::)*(?:dispatch|combine|notify_dispatch|cached_notify\w*)",
        Words(
            "DeepEP: sends tokens to their experts and back.", "DeepEP：将 token 发送给专家并取回。"
        ),
    ),
    Function(
        r"cross_device_reduce_[12]stage|allreduce_fusion_kernel\w*|two_shot\w*|one_shot\w*",
        Words(
            "All-reduce within a host by direct reads of the peers' memory.",
            "主机内的全规约：直接读取对端显存。",
        ),
    ),
    Function(
        r"TopKTopPSampling\w*|TopPRenorm\w*|SamplingFromProb\w*|apply_repetition\w*"
        r"|clamp_position_kernel|resolve_future_token_ids_kernel|\w*topk_topp\w*",
        Words("Chooses the next token.", "选择下一个 token。"),
    ),
)
"""Kernels of inference servers."""
