"""What starts a plan of a user's own code: the lines that make its changes, and a framework's file.

A framework's file shares the model, sets precision and batch; what it has no key for stands in
`gpuscope.apply(...)`, which the script calls before anything is built.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.planning.own.types import Changed, OwnPlan
from gpuscope.planning.writers.accelerate import accelerate_file
from gpuscope.planning.writers.registry import WRITERS
from gpuscope.planning.writers.torchrun import launched

__all__ = ["FRAMEWORKS", "check_framework", "written"]

_LEAST_WRAPPED = 1_000_000
"""Parameters from which accelerate gathers a part by itself: it knows no blocks of your code."""


def written(plan: OwnPlan, framework: str) -> str:
    """The file's, or the lines', text.

    Raises:
        UnknownNameError: no such framework.
        UnsupportedError: it cannot start this plan.
    """
    check_framework(framework)
    return FRAMEWORKS[framework](plan)


def check_framework(framework: str) -> None:
    """Refuse one that starts no code of a user's.

    Raises:
        UnknownNameError: no such framework.
        UnsupportedError: it trains models of its own.
    """
    names = Text("Type one of: {names}.", names=", ".join(FRAMEWORKS))
    if framework in FRAMEWORKS:
        return
    if framework in WRITERS.names():
        raise UnsupportedError(
            Text("The file for {name} does not run code of yours.", name=framework),
            Text("It starts a model that the framework, or the file itself, brings."),
            names,
        )
    raise UnknownNameError(Text("framework"), framework, tuple(FRAMEWORKS), names)


def _torchrun(plan: OwnPlan) -> str:
    """What makes the changes, and what starts it."""
    best = plan.best.candidate
    path, _, function = plan.question.target.rpartition(":")
    file = path or function
    lines = []
    if best.names:
        lines = ["import gpuscope", _applied(best.names) + "  # before anything is built"]
    if path and best.batch != best.own_batch:
        lines.append(f"{function}(batch={best.batch})")
    start = launched(best.cluster, file) if best.devices > 1 else f"python {file}"
    return "\n".join((*lines, f"# {start}"))


def _applied(names: tuple[str, ...]) -> str:
    return f"gpuscope.apply({', '.join(chr(34) + name + chr(34) for name in names)}).start()"


def _accelerate(plan: OwnPlan) -> str:
    best = plan.best.candidate
    _refuse(best, "accelerate")
    sharded = best.share.startswith("fsdp")
    done = {best.share, "bf16-autocast", *(("checkpoint",) if sharded else ())}
    shared = {
        "fsdp_auto_wrap_policy": "SIZE_BASED_WRAP",
        "fsdp_min_num_params": _LEAST_WRAPPED,
        "fsdp_reshard_after_forward": best.share == "fsdp",
        "fsdp_activation_checkpointing": "checkpoint" in best.techniques,
    }
    precision = "bf16" if "bf16-autocast" in best.techniques else "no"
    head = [f"{plan.question.target}: {best.words}", *_in_script(best, done)]
    return accelerate_file(head, best.cluster, precision, shared if sharded else None)


def _deepspeed(plan: OwnPlan) -> str:
    best = plan.best.candidate
    _refuse(best, "deepspeed")
    mixed = "bf16-autocast" in best.techniques
    head = [
        f"{plan.question.target}: {best.words}.",
        *_in_script(best, {best.share, "bf16-autocast"}),
    ]
    found: dict[str, object] = {"gpuscope": " ".join(head)}
    if best.batch is not None:
        found["train_micro_batch_size_per_gpu"] = best.batch
        found["gradient_accumulation_steps"] = 1
    found["torch_autocast"] = {"enabled": mixed, "dtype": "bfloat16"}
    stages = {"": 0, "ddp": 0, "fsdp-kept": 2, "fsdp": 3}
    found["zero_optimization"] = {"stage": stages[best.share]}
    return json.dumps(found, indent=2) + "\n"


def _in_script(best: Changed, done: set[str]) -> list[str]:
    """What the file has no key for."""
    left = tuple(name for name in best.names if name not in done)
    said = [] if best.batch is None else [f"{best.batch} samples a process"]
    said += [_applied(left)] if left else []
    return [f"In the script: {', '.join(said)}."] if said else []


def _refuse(best: Changed, framework: str) -> None:
    """Code that joins other devices by itself is shared twice by a framework."""
    if best.devices > 1 and not best.share:
        raise UnsupportedError(
            Text("{framework} cannot share this code over devices.", framework=framework),
            Text("It joins other devices by itself, or does not train."),
            Text("Type: --for torchrun"),
        )


FRAMEWORKS: dict[str, Callable[[OwnPlan], str]] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
}
"""What starts code of a user's."""
