"""What each software stack does, stated as facts; nothing here was fitted to a row.

A fact is one that the stack's own documentation, code or paper gives. Where a stack does something
that the ready-made programs cannot do, `left` says so: the reader may expect an error of that sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuscope.program.models.parallel.options import Software


@dataclass(frozen=True, slots=True)
class Stack:
    """One training code.

    Attributes:
        title: its name.
        software: kernels and habits.
        parallel: of the plan, what the stack decides and not the row.
        why: each choice with its reason.
        left: what it does that is not expressed.
        why_zh, left_zh: the same in Chinese.
    """

    title: str
    software: Software
    parallel: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    left: str = ""
    why_zh: str = ""
    left_zh: str = ""


STACKS: Mapping[str, Stack] = {
    "llm-foundry": Stack(
        "MosaicML llm-foundry, Composer (2023)",
        Software(
            attention="efficient", fused_projections=True, optimizer="adamw-foreach", clip=True
        ),
        {"reduce_dtype": "bfloat16"},
        "FSDP with parameters and sums in bf16 (composer/trainer/mosaic_fsdp_utils.py), "
        "attn_impl 'triton' (the default of scripts/train/benchmarking/submit_benchmarks.py): the "
        "first generation of flash attention, for which PyTorch's memory-efficient kernel stands "
        "(Dao 2023, arXiv:2307.08691, figures 4 to 7: both are 1.3 to 2.5 times slower than the "
        "second), one product for queries, keys and values, norms in low precision as one kernel, "
        "gradients clipped to norm 1, AdamW step by step.",
        "FSDP1 concatenates the parameters of a block; CUDA 11.8 and PyTorch 2.0 (matrix products "
        "of Hopper became quicker later).",
        why_zh=(
            "FSDP，参数与梯度求和均为 bf16（composer/trainer/mosaic_"
            "fsdp_utils.py）；attn_impl 为 'triton'（submit_b"
            "enchmarks.py 的默认值），即第一代 flash attention，用 Py"
            "Torch 的 memory-efficient 内核代表（Dao 2023，arXiv"
            ":2307.08691，图 4 至 7：两者都比第二代慢 1.3 到 2.5 倍）；Q、"
            "K、V 合为一个矩阵乘；低精度归一化为一个内核；梯度按范数 1 裁剪；AdamW 逐步执"
            "行。"
        ),
        left_zh=(
            "FSDP1 会把一个块的参数拼接起来；CUDA 11.8 与 PyTorch 2.0（H"
            "opper 的矩阵乘后来才变快）。"
        ),
    ),
    "megatron-2021": Stack(
        "Megatron-LM of the SC21 paper",
        Software(
            attention="fused_softmax",
            fused_projections=True,
            optimizer="adamw-fused",
            sharing="at_ends",
        ),
        {"fsdp": "none", "sequence_parallel": False, "reduce_dtype": "bfloat16"},
        "Attention in steps, with one kernel for scale, mask and softmax; no sequence parallelism "
        "(it came in 2022); optimizer states on every replica; gradients all-reduced in 16 bits "
        "after the backward pass.",
        "Dropout; gradients are not clipped.",
        why_zh=(
            "注意力分步执行，缩放、掩码与 softmax 合为一个内核；没有序列并行（2022 年才"
            "有）；每个副本都保存优化器状态；反向之后以 16 位对梯度做 all-reduce。"
        ),
        left_zh=("dropout；不裁剪梯度。"),
    ),
    "megatron-2022": Stack(
        "Megatron-LM of Korthikanti et al. 2022",
        Software(
            attention="fused_softmax",
            fused_projections=True,
            optimizer="adamw-fused",
            clip=True,
            sharing="at_ends",
        ),
        {"fsdp": "none", "reduce_dtype": "bfloat16"},
        "As before, with tokens shared between the layers where the row says so.",
        "Dropout.",
        why_zh=("同上，凡注明处层间按 token 切分（序列并行）。"),
        left_zh=("dropout。"),
    ),
    "megatron-core": Stack(
        "Megatron-Core with Transformer Engine",
        Software(
            attention="cudnn",
            fused_projections=True,
            optimizer="adamw-fused",
            clip=True,
            fused_steps=True,
            tokens_first=True,
            fused_accumulation=True,
            sharing="at_ends",
        ),
        {"fsdp": "zero1", "rotation": "alltoall"},
        "cuDNN's fused attention, fused norms, fused projections, rotary positions and gated "
        "activation as one kernel each, gradients added up inside of the product, tokens first "
        "(all defaults of megatron/training/arguments.py); distributed optimizer (states sharded, "
        "gradients summed once a step in float32), sequence parallelism; context parallelism as a "
        "ring. Tensor parallel communication beside its product where the source says "
        "--tp-comm-overlap. In a pipeline parameters are gathered before the first pass and "
        "gradients summed after the last; beside the passes where the source says "
        "--overlap-grad-reduce (with --overlap-param-gather).",
        "Interleaved stages where the row does not state them.",
        why_zh=(
            "cuDNN 融合注意力、融合归一化、融合投影；旋转位置编码、带门控的激活各为一个内核"
            "；梯度累加并入"
            "矩阵乘；token 维在最前（均为 megatron/training/arguments.py 的默认值）；分布式优化器"
            "（状态切分，每步一次 float32 梯度求和）、序列并行；上下文并行为环形传递。来源写明 "
            "--tp-comm-overlap 时，张量并行通信与自身矩阵乘重叠。流水线中参数在第一次计算之"
            "前收集，梯度在最后一次之后求和；来源写明 --overlap-grad-reduce（与 "
            "--overlap-param-gather）时与计算重叠。"
        ),
        left_zh="来源未写明时的交错流水线。",
    ),
    "llama-3": Stack(
        "Meta's own training code for Llama 3",
        Software(fused_projections=True, optimizer="adamw-fused", clip=True, sharing="beside"),
        {"fsdp": "zero1"},
        "The paper's section 3.3.2: parameters stay gathered within a step, gradients are added up "
        "and summed over ranks in float32, no activation is computed again, the pipeline is "
        "interleaved in chunks of one layer. Its order of parallel dimensions rests on parameters "
        "being prefetched and gradients summed asynchronously. Nothing is said of fused kernels, "
        "so none are taken.",
        "Tensor parallel communication may have overlapped with its product.",
        why_zh=(
            "论文 3.3.2 节：参数在一步之内保持收集状态，梯度以 float32 累加并跨卡求和，不重算激活，"
            "流水线以单层为块交错执行。其并行维度的顺序以参数异步预取、梯度异步求和为前提。论文没有提到"
            "融合内核，因此不计入。"
        ),
        left_zh="张量并行通信可能与矩阵乘重叠。",
    ),
    "nemo": Stack(
        "NVIDIA NeMo and Megatron-Bridge with Transformer Engine",
        Software(
            attention="cudnn",
            fused_projections=True,
            optimizer="adamw-fused",
            clip=True,
            fused_steps=True,
            tokens_first=True,
            tp_overlap=True,
            fused_accumulation=True,
            sharing="beside",
            cast_once=True,
        ),
        {"fsdp": "zero1", "reduce_dtype": "bfloat16", "rotation": "alltoall"},
        "As Megatron-Core; the performance recipes sum gradients in bf16 "
        "(grad_reduce_in_fp32 = False) and overlap tensor parallel communication with its product "
        "(userbuffers_* in megatron/bridge/training/comm_overlap.py); parameters are gathered and "
        "gradients summed beside the passes (overlap_param_gather, overlap_grad_reduce, the same "
        "file's defaults with a distributed optimizer); the tokens of exp"
        "erts are put "
        "in order by gathers (moe_permute_fusion); float8 casts write both layouts in one kernel "
        "(nvte_cast_transpose) with factors known from the step before, weights once a step; "
        "tokens sent once to a rank, the exchange beside other work and latent attention computed "
        "again where the row's recipe says so (validation/published/recipes.py). MLPerf's logs "
        "come with "
        "their configuration files: eight stages a rank, TP_COMM_OVERLAP (float8: sibling files).",
        "Norm and activation written in float8 at once; parameters gathered in float8; CUDA "
        "graphs; parts recomputed other than latent attention's (recompute_modules).",
        why_zh=(
            "同 Megatron-Core；性能配方以 bf16 对梯度求和（grad_reduce_in_fp32 = False），并让张量"
            "并行通信与自身矩阵乘重叠（megatron/bridge/training/comm_overlap.py 的 userbuff"
            "ers_*）；参数收集与梯度求和与计算重叠（同一文件在分布式优化器下的默认值"
            "overlap_param_gather、overlap_grad_reduce）；"
            "专家的 token 用收集操作排序（moe_permute_fusion）；float8 转换用一个内核同时写"
            "出两种布局"
            "（nvte_cast_transpose），缩放因子取自上一步，权重每步只转换一次；"
            "配方写明时，每个 token 对每张卡只发送一次、交换与其他工作重叠、潜在注意力重算"
            "（validation/published/recipes.py）。MLPerf 的日志附有配置文件：每卡八个阶段、"
            "TP_COMM_OVERLAP（float8 见同组其他配置）。"
        ),
        left_zh=(
            "归一化与激活直接写出 float8；以 float8 收集参数；CUDA graph；潜在注意力以外的部分"
            "重算（recompute_modules）。"
        ),
    ),
    "torchtitan": Stack(
        "torchtitan",
        Software(attention="flash_only", optimizer="adamw-fused", clip=True),
        {},
        "FSDP2 itself, flash attention 2 (its context parallelism allows no other, and "
        "PyTorch of that time preferred it to cuDNN's), fused AdamW, gradients clipped; "
        "torch.compile block by block, and tensor parallel communication beside its product "
        "(asynchronous TP), where the row says so.",
        "",
        why_zh=(
            "即 FSDP2 本身，flash attention 2（其上下文并行不允许别的内核，当"
            "时的 PyTorch 也优先选它而非 cuDNN），融合 AdamW，梯度裁剪；注明处逐"
            "块 torch.compile；注明异步张量并行处，其通信与自身矩阵乘重叠。"
        ),
    ),
    "fms-fsdp": Stack(
        "IBM fms-fsdp",
        Software(
            attention="flash_only", fused_projections=True, optimizer="adamw-fused", clip=True
        ),
        {"reduce_dtype": "bfloat16"},
        "FSDP1 with bf16 everywhere, flash attention 2, one product for queries, keys and values.",
        "torch.compile; FSDP1 concatenates the parameters of a block.",
        why_zh=("FSDP1，全程 bf16，flash attention 2，Q、K、V 合为一个矩阵乘。"),
        left_zh=("torch.compile；FSDP1 会把一个块的参数拼接起来。"),
    ),
    "maxtext": Stack(
        "MaxText (JAX, XLA)",
        Software(optimizer="adamw-fused", loss_chunks=1, compile="default"),
        {"fsdp": "full", "reduce_dtype": "bfloat16"},
        "Parameters sharded over all chips, gathered block by block beside the products "
        "(CF_FOR_ALL_GATHER in benchmarks/xla_flags_library.py); elementwise steps fused, for "
        "which Inductor's fusions stand; splash attention; blocks computed again but for what "
        "the recipe keeps or offloads; gradients summed in bf16 "
        "(docs/guides/optimization/sharding.md), beside the backward pass only where the "
        "recipe's flags say so. Recipe by recipe: validation/published/maxtext.py.",
        "Copies to the host of what is offloaded, taken to be hidden. All-reduces where XLA "
        "finds no reduce-scatter (up to twice the bytes). Experts' capacity of 1.25 and the "
        "products that dispatch and combine their tokens. PyTorch's copies around gathers and "
        "sums, which XLA may not make, are counted.",
        why_zh=(
            "参数切分到所有芯片，逐块收集，并与矩阵乘重叠（benchmarks/xla_flags_library.py 的 "
            "CF_FOR_ALL_GATHER）；逐元素步骤融合，用 Inductor 的融合代表；splash attention；块内"
            "重算，配方保留或卸载的部分除外；梯度以 bf16 求和（"
            "docs/guides/optimization/sharding.md），只有配方的标志注明时才与反向重叠。逐个配方"
            "见 validation/published/maxtext.py。"
        ),
        left_zh=(
            "卸载到主机的拷贝，视为被隐藏；XLA 找不到 reduce-scatter 时的 all-reduce（至多两倍字"
            "节）；专家容量系数 1.25，以及分发与合并 token 的矩阵乘。PyTorch 在收集与求和前后的"
            "拷贝计入在内，而 XLA 未必有。"
        ),
    ),
    "primus": Stack(
        "AMD Primus (torchtitan, Megatron on ROCm)",
        Software(fused_projections=True, optimizer="adamw-fused", clip=True),
        {},
        "As Megatron-Core, or FSDP2 where the row says so; composable-kernel or AITER attention.",
        "",
        why_zh=("同 Megatron-Core，注明处为 FSDP2；composable-kernel 或 AITER 注意力。"),
    ),
}
"""By short name."""


def stack_of(source: str) -> str | None:
    """The short name of the stack that a source measured; None where it is not expressed."""
    for part, stack in (
        ("MosaicML", "llm-foundry"),
        ("SC21", "megatron-2021"),
        ("Korthikanti", "megatron-2022"),
        ("Megatron-Core", "megatron-core"),
        ("Megatron-Bridge", "nemo"),
        ("NeMo", "nemo"),
        ("SimuMax", "megatron-core"),
        ("MLPerf", "nemo"),
        ("torchtitan", "torchtitan"),
        ("fms-fsdp", "fms-fsdp"),
        ("MaxText", "maxtext"),
        ("tpu-recipes", "maxtext"),
        ("Primus", "primus"),
        ("Herd", "llama-3"),
    ):
        if part in source:
            return stack
    return None
