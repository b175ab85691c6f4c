"""Arguments that say what to run and where the result goes; `predict` and `measure` share them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WorkloadArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="A built-in model (see: gpuscope models), file.py:function, a script.py, or a "
        "Hugging Face config.json.",
    ),
]
ScriptArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- ARGS", help="After --: the script's own arguments."),
]
AsModule = Annotated[
    bool, typer.Option("--module", "-m", help="The workload is a module, as in python -m NAME.")
]
AllowWrites = Annotated[
    bool,
    typer.Option("--allow-writes", help="Run a script though it writes files."),
]
Task = Annotated[str | None, typer.Option(help="train, prefill, decode or inference.")]
Batch = Annotated[int | None, typer.Option(help="Sequences, images or samples a step.")]
Seq = Annotated[int | None, typer.Option(help="Tokens of one sequence.")]
Dtype = Annotated[str | None, typer.Option(help="float32, tf32, bfloat16, float16 or fp8.")]
Attention = Annotated[str | None, typer.Option(help="sdpa, flash or eager.")]
Optimizer = Annotated[str | None, typer.Option(help="adamw, adamw-fused, sgd, adafactor, ...")]
CompileMode = Annotated[
    str | None,
    typer.Option("--compile", metavar="MODE", help="default, reduce-overhead, max-autotune."),
]
Checkpointing = Annotated[
    bool, typer.Option("--checkpointing", help="Recompute activations in the backward pass.")
]
Image = Annotated[int | None, typer.Option(help="Pixels of an image's side.")]
Context = Annotated[
    int | None, typer.Option(help="Tokens in the key-value cache before a decode step.")
]
Layers = Annotated[int | None, typer.Option(help="Number of blocks of the model.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the JSON document instead of the story.")
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Save the JSON document (compressed if it ends in .gz)."),
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML report.")
]
Trace = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write a trace for Perfetto (.json or .json.gz)."),
]
Figures = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write each figure as SVG and PNG.")
]
Lang = Annotated[str | None, typer.Option(help="Language: en or zh.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the headline; no progress.")]
