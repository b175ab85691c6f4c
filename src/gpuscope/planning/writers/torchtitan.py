"""A TOML file of torchtitan's: parallelism, batch and recomputation.

Names of sections and keys are those of torchtitan's `config/job_config.py` (0.2, 2025). The model,
its data and its checkpoints stay the user's to name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.planning.writers.registry import ANY, refuse_more, writer
from gpuscope.program.pipeline.decoder_stages import StageLayers, cut_layers

_SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}
_RECOMPUTE = {"none": "none", "selective": "selective", "full": "full"}


_FP8 = (
    "# torchao casts with factors of the moment, and keeps bfloat16 where the plan's casts keep",
    "# float8: its memory and its step differ from what was predicted.",
    "[model]",
    'converters = ["quantize.linear.float8"]',
    "",
    "[quantize.linear.float8]",
    'filter_fqns = ["output"]',
    "",
)

_CAN: Mapping[str, Sequence[str]] = {
    "precision": ("fp8",),
    "offload": ("cpu",),
    "stages": (ANY,),
    "etp": (ANY,),
}
"""What it can start beside the layout, by dimension."""


def _refuse(question: Question, candidate: Candidate) -> None:
    refuse_more("torchtitan", candidate, _CAN)
    split, etp = candidate.plan, candidate.asked.etp or 1
    if etp > 1 and (etp != split.tp or split.ep == 1):
        raise UnsupportedError(
            Text("torchtitan cannot start etp {etp} with tp {tp} and ep {ep}.", etp=etp,
                 tp=split.tp, ep=split.ep),
            Text("It cuts experts over as many ranks as all else, or over none, beside ep."),
            Text("Write the torchrun line instead: --for torchrun"),
        )  # fmt: skip
    if split.fsdp == "zero1" and split.dp * split.cp > 1:
        raise UnsupportedError(
            Text("torchtitan does not shard as {fsdp} does.", fsdp=split.fsdp),
            Text("It shards everything (FSDP2), or nothing (DDP)."),
            Text("Write the torchrun line instead: --for torchrun"),
        )
    if split.schedule not in _SCHEDULES:
        raise UnsupportedError(
            Text("No schedule of torchtitan is known to be {schedule}.", schedule=split.schedule),
            "",
            Text("Write the torchrun line instead: --for torchrun"),
        )


def _modules(stage: StageLayers) -> list[str]:
    """What a stage holds, by torchtitan's names."""
    blocks = [f"layers.{number}" for number in stage.layers]
    first, last = ["tok_embeddings"] * stage.first, ["norm", "output"] * stage.last
    return [*first, *blocks, *last]


@writer("torchtitan", _refuse)
def torchtitan(plan: Plan) -> str:
    """The file's text.

    Raises:
        UnsupportedError: torchtitan has no such sharding or schedule.
    """
    split, etp = plan.best.candidate.plan, plan.best.candidate.asked.etp or 1
    shard, replicate = split.dp, 1
    if split.fsdp == "hybrid":
        shard, replicate = split.shard, split.dp // split.shard
    if split.fsdp == "none":
        shard, replicate = 1, split.dp
    # A replica's sequences of a step of a pipeline are its local batch; it cuts them itself.
    local = split.microbatch * (split.microbatches if split.pp > 1 else 1)
    lines = [
        f"# {plan.question.model}: {plan.best.candidate.words}",
        "# TOML for torchtitan before 0.3 (read by the one of 0.2.2); 0.3 takes arguments instead.",
        "",
        "[training]",
        f"local_batch_size = {local}",
        f"global_batch_size = {split.global_batch}",
        f"seq_len = {plan.question.seq}",
        'mixed_precision_param = "bfloat16"',
        'mixed_precision_reduce = "float32"',
        *(["enable_cpu_offload = true"] if ("offload", "cpu") in plan.best.candidate.more else []),
        "",
        "[parallelism]",
        f"data_parallel_replicate_degree = {replicate}",
        f"data_parallel_shard_degree = {shard}",
        f"tensor_parallel_degree = {split.tp}",
        f"context_parallel_degree = {split.cp}",
        f"expert_parallel_degree = {split.ep}",
        *([f"expert_tensor_parallel_degree = {etp}"] if etp > 1 else []),
        f"pipeline_parallel_degree = {split.pp}",
    ]
    if split.fsdp == "zero2" and split.dp * split.cp > 1:
        lines.append('fsdp_reshard_after_forward = "never"')
    if split.pp > 1:
        lines.append(f'pipeline_parallel_schedule = "{_SCHEDULES[split.schedule]}"')
        lines.append(f"pipeline_parallel_microbatch_size = {split.microbatch}")
        cut = plan.best.candidate.asked.cut
        if cut:
            stages = cut_layers(plan.question.size.layers, split.stages, cut)
            lines.append(f"module_fqns_per_model_part = {json.dumps(list(map(_modules, stages)))}")
    lines += ["", "[activation_checkpoint]", f'mode = "{_RECOMPUTE[split.recompute]}"']
    if split.recompute == "selective":  # else it takes every second block whole
        lines.append('selective_ac_option = "op"')
    lines.append("")
    if ("precision", "fp8") in plan.best.candidate.more:
        lines += _FP8
    return "\n".join(lines)
