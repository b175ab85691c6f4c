"""A file of Hugging Face's accelerate, FSDP2 or DDP: `accelerate launch --config_file plan.yaml`.

Keys are those of accelerate 1.15's `commands/config/config_args.py` and of its launcher's
`--fsdp_...` arguments. The number of sequences a process takes and of steps it adds up are the
script's own, and stand in the head.
"""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.types import Plan
from gpuscope.planning.writers.registry import writer

_FSDP = ("full", "zero2")


@writer("accelerate")
def accelerate(plan: Plan) -> str:
    """The file's text.

    Raises:
        UnsupportedError: the plan splits more than data, or recomputes what no key can ask for.
    """
    best = plan.best.candidate
    split, cluster = best.plan, best.cluster
    _refuse(plan)
    sharded = split.fsdp in _FSDP and split.dp > 1
    kind = (
        "FSDP" if sharded else "MULTI_GPU" if split.dp > 1 else "'NO'"
    )  # unquoted, YAML reads it as false
    lines = [
        f"# {plan.question.model}: {best.words}",
        f"# In the script: {split.microbatch} sequences of {plan.question.seq} tokens a process, "
        f"Accelerator(gradient_accumulation_steps={split.microbatches}).",
        "compute_environment: LOCAL_MACHINE",
        "debug: false",
        f"distributed_type: {kind}",
        "machine_rank: 0",
        "main_training_function: main",
        "mixed_precision: bf16",
        f"num_machines: {cluster.nodes}",
        f"num_processes: {split.world_size}",
        "use_cpu: false",
    ]
    if sharded:
        lines += [
            "fsdp_config:",
            "  fsdp_version: 2",
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            f"  fsdp_reshard_after_forward: {str(split.fsdp == 'full').lower()}",
            f"  fsdp_activation_checkpointing: {str(split.recompute == 'full').lower()}",
            "  fsdp_offload_params: false",
            "  fsdp_state_dict_type: SHARDED_STATE_DICT",
        ]
    return "\n".join((*lines, ""))


def _refuse(plan: Plan) -> None:
    split = plan.best.candidate.plan
    for name in ("tp", "pp", "cp", "ep"):
        if getattr(split, name) > 1:
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
