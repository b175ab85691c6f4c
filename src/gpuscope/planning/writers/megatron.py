"""Arguments of Megatron-LM's `pretrain_gpt.py`: the model's sizes and the plan.

Names are those of Megatron-LM's `megatron/training/arguments.py` (2025). Data, tokenizer, learning
rate and checkpoints stay the user's, and so does how a router's load is balanced. Shared experts
and latent attention have arguments that no size here settles, and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.planning.writers.registry import ANY, refuse_more, writer

_MOMENTS = {"bf16": "bf16", "8bit": "fp8"}
"""Its names of what moments are kept in; one byte is a float8 there."""

_CAN: Mapping[str, Sequence[str]] = {
    "precision": ("fp8",),
    "states": ("bf16", "8bit"),
    "sp": ("off",),
    "stages": (ANY,),
    "etp": (ANY,),
}
"""What it can start beside the layout, by dimension."""


def _refuse(question: Question, candidate: Candidate) -> None:
    refuse_more("Megatron-LM", candidate, _CAN)
    split, size = candidate.plan, question.size
    again = Text("Write the torchrun line instead: --for torchrun")
    what = None
    if size.latent or (size.experts and size.experts.shared_ffn):
        what = "latent attention" if size.latent else "shared experts"
    elif size.result_norm:
        what = "norms after attention"
    elif size.experts and ("sp", "off") in candidate.more:
        what = "experts with sp off"
    elif size.positions == "learned" or (size.activation != "silu" and size.gated):
        what = f"{size.positions}, {size.activation}"
    elif split.fsdp not in ("zero1", "none") and split.dp * split.cp > 1:
        what = f"fsdp {split.fsdp}"
    elif "states" in dict(candidate.more) and split.fsdp == "none" and split.dp * split.cp > 1:
        what = "states without the distributed optimizer"
    elif candidate.asked.cut and split.virtual > 1:
        what = "uneven virtual stages"
    elif split.schedule not in ("1f1b", "interleaved"):
        what = f"schedule {split.schedule}"
    elif split.recompute == "selective":
        what = "recompute selective"
    if what is not None:
        raise UnsupportedError(
            Text("The arguments for Megatron-LM cannot ask for {name}.", name=what), "", again
        )


def _experts(plan: Plan) -> list[str]:
    """Of a mixture of experts; their tensor parallelism is said, since it is `tp` otherwise."""
    candidate, experts = plan.best.candidate, plan.question.size.experts
    if experts is None:
        return []
    given = [
        f"--num-experts {experts.count} --moe-router-topk {experts.chosen}",
        f"--moe-ffn-hidden-size {experts.ffn} --moe-grouped-gemm",
        "--moe-token-dispatcher-type alltoall",
        f"--expert-model-parallel-size {candidate.plan.ep}",
        f"--expert-tensor-parallel-size {candidate.asked.etp or 1}",
    ]
    if experts.dense_layers:
        rest = plan.question.size.layers - experts.dense_layers
        given.append(f"--moe-layer-freq '([0]*{experts.dense_layers}+[1]*{rest})'")
    return given


@writer("megatron", _refuse)
def megatron(plan: Plan) -> str:
    """The arguments, one a line; a shell reads them as one command.

    Raises:
        UnsupportedError: Megatron-LM has no such sharding, schedule or block.
    """
    best = plan.best.candidate
    split, size, cluster = best.plan, plan.question.size, best.cluster
    meet = " --rdzv-backend c10d --rdzv-endpoint HOST:29500" if cluster.nodes > 1 else ""
    given = [
        f"torchrun --nnodes {cluster.nodes} --nproc-per-node {cluster.devices_per_node}{meet} "
        "pretrain_gpt.py",
        f"--num-layers {size.layers} --hidden-size {size.hidden}",
        f"--num-attention-heads {size.heads} --kv-channels {size.head}",
        f"--ffn-hidden-size {size.ffn}",
        f"--seq-length {plan.question.seq}",
        f"--max-position-embeddings {max(size.context, plan.question.seq)}",
        f"--normalization {'RMSNorm' if size.norm == 'rms' else 'LayerNorm'}",
    ]
    if size.kv_heads != size.heads:
        given.append(f"--group-query-attention --num-query-groups {size.kv_heads}")
    if size.gated:
        given.append("--swiglu")
    if size.positions == "rope":
        given.append(f"--position-embedding-type rope --rotary-base {size.rope_base:.0f}")
    if not size.tied:
        given.append("--untie-embeddings-and-output-weights")
    if not size.mlp_bias:
        given.append("--disable-bias-linear")
    if size.qkv_bias and not size.mlp_bias:
        given.append("--add-qkv-bias")
    if size.head_norm:
        given.append("--qk-layernorm")
    if size.window:
        given.append(f"--window-size {size.window.tokens - 1},0")
        if size.window.every:
            given.append(f"--window-attn-skip-freq {size.window.every}")
    given += [
        f"--micro-batch-size {split.microbatch} --global-batch-size {split.global_batch}",
        f"--tensor-model-parallel-size {split.tp} --pipeline-model-parallel-size {split.pp}",
        f"--context-parallel-size {split.cp}",
        "--bf16",
    ]
    given += _experts(plan)
    if ("precision", "fp8") in best.more:
        given.append("--fp8-format hybrid --transformer-impl transformer_engine")
    states = dict(best.more).get("states")
    if states is not None:
        given.append(f"--use-precision-aware-optimizer --exp-avg-dtype {_MOMENTS[states]}")
        given.append(f"--exp-avg-sq-dtype {_MOMENTS[states]}")
    if split.splits_tokens and ("sp", "off") not in best.more:
        given.append("--sequence-parallel")
    if best.asked.cut:
        layers = "|".join(f"t*{blocks}" for blocks in best.asked.cut)
        given.append(f"--pipeline-model-parallel-layout 'E{layers}L'")
    if split.virtual > 1:
        given.append(f"--num-virtual-stages-per-pipeline-rank {split.virtual}")
    if states is not None or (split.fsdp == "zero1" and split.dp * split.cp > 1):
        given.append("--use-distributed-optimizer")
    if split.recompute == "full":
        given.append("--recompute-granularity full --recompute-method uniform")
        given.append("--recompute-num-layers 1")
    head = [
        f"# {plan.question.model}: {best.words}",
        "# Not checked: written without Megatron-LM's own reader. It keeps bfloat16 parameters",
        "# beside float32 ones, so that its memory differs from what was predicted.",
    ]
    return "\n".join((*head, " \\\n  ".join(given), ""))
