"""`predict --method`: a step of fine-tuning on one device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import parse_target
from gpuscope.program.models.settings import WorkloadOptions, canonical_dtype
from gpuscope.program.models.tuning import USUAL_OPTIMIZER, FineTuning, projections_of


def fine_tuned(
    workload: str,
    options: WorkloadOptions,
    tuned: dict[str, Any],
    on: Iterable[str],
    shared: bool = False,
) -> WorkloadOptions:
    """The options with `--method`, which was given.

    Args:
        workload: its name.
        options: what was typed besides.
        tuned: of `gpuscope.cli.workload_arguments.Tuned`.
        on: devices and clusters.
        shared: how several devices share it was typed, too.

    Raises:
        UnknownNameError: no such method or target.
        InvalidValueError: code of the user's, several devices, or what the method decides itself.
    """
    if workload.partition(":")[0].endswith((".py", ".onnx")) or options.module:
        raise InvalidValueError(
            Text("Your own code says itself how it is fine-tuned."),
            Text("--method is for built-in decoders; peft's code is captured as it stands."),
            Text("Leave it out."),
        )
    if shared or any(parse_target(name).n_devices > 1 for name in on):
        raise InvalidValueError(
            Text("predict --method is a step of one device."),
            Text("How several share it is chosen by plan."),
            Text("Type: gpuscope plan MODEL --task finetune --devices 8"),
        )
    given = (("--optimizer", options.optimizer), ("--task", options.task))
    dtype = options.dtype
    other = [name for name, value in given if value not in (None, "train")]
    if dtype is not None and canonical_dtype(dtype) != "bfloat16":
        other.append("--dtype")
    if other:
        raise InvalidValueError(
            Text("{name} does not go with --method.", name=other[0]),
            Text("Fine-tuning is training in bfloat16, its optimizer follows from the method."),
            Text("Leave it out."),
        )
    method = tuned["method"]
    tuning = FineTuning(
        method=method,
        rank=tuned["rank"],
        targets=projections_of(tuned["targets"]),
        optimizer=USUAL_OPTIMIZER.get(method, "adamw"),
    )
    return replace(options, task="train", dtype="bfloat16", amp=False, tuning=tuning)
