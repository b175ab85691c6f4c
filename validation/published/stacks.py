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
    """

    title: str
    software: Software
    parallel: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    left: str = ""


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
    ),
    "megatron-2021": Stack(
        "Megatron-LM of the SC21 paper",
        Software(attention="fused_softmax", fused_projections=True, optimizer="adamw-fused"),
        {"fsdp": "none", "sequence_parallel": False, "reduce_dtype": "bfloat16"},
        "Attention in steps, with one kernel for scale, mask and softmax; no sequence parallelism "
        "(it came in 2022); optimizer states on every replica; gradients all-reduced in 16 bits "
        "after the backward pass.",
        "Dropout; gradients are not clipped.",
    ),
    "megatron-2022": Stack(
        "Megatron-LM of Korthikanti et al. 2022",
        Software(attention="fused_softmax", fused_projections=True, optimizer="adamw-fused", clip=True),
        {"fsdp": "none", "reduce_dtype": "bfloat16"},
        "As before, with tokens shared between the layers where the row says so.",
        "Dropout.",
    ),
    "megatron-core": Stack(
        "Megatron-Core and NeMo with Transformer Engine",
        Software(fused_projections=True, optimizer="adamw-fused", clip=True),
        {"fsdp": "zero1"},
        "cuDNN's fused attention, fused norms, fused projections, distributed optimizer (states "
        "sharded, gradients summed once a step in float32, overlapped), sequence parallelism.",
        "Tensor parallel communication overlapped with its own product; bias, activation and "
        "rotary positions fused.",
    ),
    "torchtitan": Stack(
        "torchtitan",
        Software(optimizer="adamw-fused", clip=True),
        {},
        "FSDP2 itself, scaled_dot_product_attention, fused AdamW, gradients clipped; torch.compile "
        "block by block where the row says so.",
        "Asynchronous tensor parallelism.",
    ),
    "fms-fsdp": Stack(
        "IBM fms-fsdp",
        Software(fused_projections=True, optimizer="adamw-fused", clip=True),
        {"reduce_dtype": "bfloat16"},
        "FSDP1 with bf16 everywhere, flash attention 2, one product for queries, keys and values.",
        "torch.compile; FSDP1 concatenates the parameters of a block.",
    ),
    "maxtext": Stack(
        "MaxText (JAX, XLA)",
        Software(optimizer="adamw-fused", loss_chunks=1),
        {"fsdp": "full"},
        "Parameters sharded over all chips, gathered block by block; splash attention; blocks "
        "recomputed ('remat_policy: full', or a policy that keeps some).",
        "XLA fuses every elementwise step into its neighbours.",
    ),
    "primus": Stack(
        "AMD Primus (torchtitan, Megatron on ROCm)",
        Software(fused_projections=True, optimizer="adamw-fused", clip=True),
        {},
        "As Megatron-Core, or FSDP2 where the row says so; composable-kernel or AITER attention.",
        "",
    ),
}  # fmt: skip
"""By short name."""


def stack_of(source: str) -> str | None:
    """The short name of the stack that a source measured; None where it is not expressed."""
    for part, stack in (
        ("MosaicML", "llm-foundry"), ("SC21", "megatron-2021"), ("Korthikanti", "megatron-2022"),
        ("Megatron-Core", "megatron-core"), ("Megatron-Bridge", "megatron-core"),
        ("NeMo", "megatron-core"), ("SimuMax", "megatron-core"), ("MLPerf", "megatron-core"),
        ("torchtitan", "torchtitan"), ("fms-fsdp", "fms-fsdp"), ("MaxText", "maxtext"),
        ("tpu-recipes", "maxtext"), ("Primus", "primus"), ("Herd", "megatron-core"),
    ):  # fmt: skip
        if part in source:
            return stack
    return None
