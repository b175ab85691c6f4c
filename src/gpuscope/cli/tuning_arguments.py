"""`predict --method` and `--lengths`: how a built-in decoder is trained, as options of it."""

from __future__ import annotations

from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.settings import WorkloadOptions


def fine_tuned(workload: str, options: WorkloadOptions, tuned: dict[str, Any]) -> WorkloadOptions:
    """The options with `--method`, `--lengths` and what goes with them, where they were given.

    Args:
        workload: its name.
        options: what was typed besides.
        tuned: of `gpuscope.cli.workload_arguments.Tuned`.

    Raises:
        UnknownNameError: no such method, target or packing.
        InvalidValueError: code of the user's, or what the method decides itself.
        InputFileError: a file without lengths.
    """
    method, lengths, packing = tuned["method"], tuned["lengths"], tuned["packing"]
    if method is None and lengths is None and packing is None:
        return options
    if workload.partition(":")[0].endswith((".py", ".onnx")) or options.module:
        raise InvalidValueError(
            Text("Your own code says itself how it is fine-tuned."),
            Text("--method and --lengths are for built-in decoders; peft's code is captured."),
            Text("Leave it out."),
        )
    if method is not None:
        options = options.tuned(method, rank=tuned["rank"], targets=tuned["targets"])
    if lengths is None and packing is not None:
        raise InvalidValueError(
            Text("--packing does not say how long examples are."),
            Text("Examples of equal length fill their rows: there is nothing to pack."),
            Text(
                "Type for example: --lengths lognormal:400,0.8 --packing {packing}", packing=packing
            ),
        )
    return options if lengths is None else options.packed(lengths, packing or "padded")
