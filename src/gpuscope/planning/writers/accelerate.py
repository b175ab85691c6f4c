"""A file of Hugging Face's accelerate, FSDP2 or DDP: `accelerate launch --config_file plan.yaml`.

Keys are those of accelerate 1.15's `commands/config/config_args.py` and of its launcher's
`--fsdp_...` arguments. The number of sequences a process takes and of steps it adds up are the
script's own, and stand in the head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Cluster
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.planning.writers.registry import beyond_data, refuse_more, writer

_FSDP = ("full", "zero2")


_CAN: Mapping[str, Sequence[str]] = {
    "precision": ("fp8",),
    "states": ("8bit",),
    "offload": ("cpu",),
}
"""What it can start beside the layout, by dimension."""


def _refuse(question: Question, candidate: Candidate) -> None:
    refuse_more("accelerate", candidate, _CAN)
    split = candidate.plan
    if (name := beyond_data(split)) is not None:
        raise UnsupportedError(
            Text("The file for accelerate cannot ask for {name}.", name=name),
            Text("It has FSDP2 and DDP."),
            Text("Type: --for torchtitan"),
        )
    if split.dp > 1 and split.fsdp not in (*_FSDP, "none"):
        raise UnsupportedError(
            Text("The file for accelerate cannot ask for {name}.", name=f"fsdp {split.fsdp}"),
            Text("It has FSDP2 and DDP."),
            Text("Type: --for torchrun"),
        )
    alone = split.dp == 1 or split.fsdp == "none"
    if split.recompute == "selective" or (split.recompute == "full" and alone):
        raise UnsupportedError(
            Text(
                "The file for accelerate cannot ask for {name}.",
                name=f"recompute {split.recompute}",
            ),
            Text("It has full recomputation, with FSDP2."),
            Text("Type: --for torchrun"),
        )


@writer("accelerate", _refuse)
def accelerate(plan: Plan) -> str:
    """The file's text.

    Raises:
        UnsupportedError: the plan splits more than data, or recomputes what no key can ask for.
    """
    best = plan.best.candidate
    split, cluster = best.plan, best.cluster
    head = [
        f"{plan.question.model}: {best.words}",
        f"In the script: {split.microbatch} sequences of {plan.question.seq} tokens a process, "
        f"Accelerator(gradient_accumulation_steps={split.microbatches}).",
    ]
    if ("states", "8bit") in best.more:
        head.append("In the script: torchao.optim.AdamW8bit(model.parameters()).")
    shared = None
    if split.fsdp in _FSDP and split.dp > 1:
        shared = {
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": split.fsdp == "full",
            "fsdp_activation_checkpointing": split.recompute == "full",
            "fsdp_offload_params": ("offload", "cpu") in best.more,
        }
    precision = dict(best.more).get("precision", "bf16")
    return accelerate_file(head, cluster, precision, shared)


def accelerate_file(
    head: Sequence[str], cluster: Cluster, precision: str, fsdp: Mapping[str, object] | None
) -> str:
    """The file's text.

    Args:
        head: comments.
        cluster: a process for each device.
        precision: "bf16", "fp8" (by Transformer Engine) or "no".
        fsdp: keys of FSDP2 that a plan decides; None: whole copies (DDP), or one process.
    """
    kind = "FSDP" if fsdp else "MULTI_GPU" if cluster.n_devices > 1 else "'NO'"
    lines = [
        *(f"# {line}" for line in head),
        "compute_environment: LOCAL_MACHINE",
        "debug: false",
        f"distributed_type: {kind}",  # 'NO' is quoted: YAML reads it as false otherwise
        "machine_rank: 0",
        "main_training_function: main",
        f"mixed_precision: {_word(precision)}",
        f"num_machines: {cluster.nodes}",
        f"num_processes: {cluster.n_devices}",
        "use_cpu: false",
    ]
    if fsdp:
        lines += ["fsdp_config:", "  fsdp_version: 2"]
        lines += [f"  {key}: {_word(value)}" for key, value in fsdp.items()]
        if "fsdp_offload_params" not in fsdp:
            lines.append("  fsdp_offload_params: false")
        lines.append("  fsdp_state_dict_type: SHARDED_STATE_DICT")
    if precision == "fp8":
        lines += ["fp8_config:", "  fp8_backend: TE", "  fp8_format: HYBRID"]
    return "\n".join((*lines, ""))


def _word(value: object) -> str:
    """As YAML writes it."""
    if value == "no":
        return "'no'"
    return str(value).lower() if isinstance(value, bool) else str(value)
