"""DeepSpeed's JSON: ZeRO stage, batch, precision. Its own reader takes it (0.19, in the tests).

Keys are those of DeepSpeed's configuration page. JSON has no comments: what the script must do
itself stands under a key of ours, which DeepSpeed leaves alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.planning.writers.registry import beyond_data, refuse_more, writer

_STAGES = {"none": 0, "zero1": 1, "zero2": 2, "full": 3}


_CAN: Mapping[str, Sequence[str]] = {"offload": ("cpu",)}
"""What it can start beside the layout, by dimension."""


def _refuse(question: Question, candidate: Candidate) -> None:
    refuse_more("DeepSpeed", candidate, _CAN)
    split = candidate.plan
    more = beyond_data(split)
    if more is None and split.fsdp not in _STAGES:
        more = f"fsdp {split.fsdp}"
    if more is not None:
        raise UnsupportedError(
            Text("The file for DeepSpeed cannot ask for {name}.", name=more),
            Text("It has the stages of ZeRO over all ranks."),
            Text("Write the torchrun line instead: --for torchrun"),
        )


@writer("deepspeed", _refuse)
def deepspeed(plan: Plan) -> str:
    """The file's text.

    Raises:
        UnsupportedError: the plan splits more than data, or shards over a part of the ranks.
    """
    best, split = plan.best.candidate, plan.best.candidate.plan
    said = f"{plan.question.model}: {best.words}; {plan.question.seq} tokens a sequence."
    again = "" if split.recompute == "none" else f" The script recomputes ({split.recompute})."
    found: dict[str, Any] = {
        "gpuscope": f"{said}{again} DeepSpeed keeps bfloat16 parameters beside float32 ones: its "
        "memory differs from what was predicted.",
        "train_micro_batch_size_per_gpu": split.microbatch,
        "gradient_accumulation_steps": split.microbatches,
        "train_batch_size": split.global_batch,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": _STAGES[split.fsdp] if split.dp > 1 else 0},
    }
    if ("offload", "cpu") in best.more:
        home = {"device": "cpu", "pin_memory": True}
        found["zero_optimization"]["offload_optimizer"] = home
        if split.fsdp == "full":
            found["zero_optimization"]["offload_param"] = home
    return json.dumps(found, indent=2) + "\n"
