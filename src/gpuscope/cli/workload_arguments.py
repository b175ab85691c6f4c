"""Arguments that say what to run and where the result goes: what commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.results import Outputs
    from gpuscope.program.models.settings import WorkloadOptions

GraphEngine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=Text(
            "What runs an ONNX graph: onnxruntime, tensorrt, pytorch; on a CPU also openvino."
        ),
        show_default="onnxruntime",
    ),
]
"""What executes an ONNX graph; None: the default."""

WorkloadArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help=Text(
            "A built-in model (see: gpuscope models), file.py:function, a script.py, or a "
            "Hugging Face config.json."
        ),
    ),
]
ScriptArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- ARGS", help=Text("After --: the script's own arguments.")),
]
AsModule = Annotated[
    bool,
    typer.Option("--module", "-m", help=Text("The workload is a module, as in python -m NAME.")),
]
AllowWrites = Annotated[
    bool,
    typer.Option(
        "--allow-writes",
        help=Text(
            "What your code writes is real, else it vanishes. Either way: run no code that you "
            "do not trust."
        ),
    ),
]
StepOf = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="WHICH",
        help=Text("What is a script's step: whole, optimizer, forward, or its number."),
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache", help=Text("Capture anew: take nothing that was kept, keep nothing.")
    ),
]
Task = Annotated[str | None, typer.Option(help=Text("train, prefill, decode or inference."))]
Batch = Annotated[int | None, typer.Option(help=Text("Sequences, images or samples a step."))]
Seq = Annotated[int | None, typer.Option(help=Text("Tokens of one sequence."))]
Dtype = Annotated[str | None, typer.Option(help=Text("float32, tf32, bfloat16, float16 or fp8."))]
Attention = Annotated[str | None, typer.Option(help=Text("sdpa, flash or eager."))]
Optimizer = Annotated[
    str | None, typer.Option(help=Text("adamw, adamw-fused, sgd, adafactor, ..."))
]
CompileMode = Annotated[
    str | None,
    typer.Option("--compile", metavar="MODE", help=Text("default, reduce-overhead, max-autotune.")),
]
Checkpointing = Annotated[
    bool, typer.Option("--checkpointing", help=Text("Recompute activations in the backward pass."))
]
FromHost = Annotated[
    bool,
    typer.Option(
        "--from-host",
        help=Text("A built-in model's batch comes from the host each step, its result goes back."),
    ),
]
Image = Annotated[int | None, typer.Option(help=Text("Pixels of an image's side."))]
Context = Annotated[
    int | None, typer.Option(help=Text("Tokens in the key-value cache before a decode step."))
]
Layers = Annotated[int | None, typer.Option(help=Text("Number of blocks of the model."))]
AsJson = Annotated[
    bool, typer.Option("--json", help=Text("Print the JSON document instead of the story."))
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help=Text("Save the JSON document (compressed if it ends in .gz).")
    ),
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help=Text("Write a self-contained HTML report."))
]
Trace = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=Text("Write a trace for Perfetto (.json or .json.gz).")),
]
Figures = Annotated[
    Path | None, typer.Option(metavar="DIR", help=Text("Write each figure as SVG and PNG."))
]
Lang = Annotated[str | None, typer.Option(help=Text("Language: en or zh."))]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help=Text("Only the headline; no progress."))]


NO_AXES: tuple[tuple[str, int], ...] = ()
"""Of a workload that is no ONNX graph."""


def names_in(text: str | None) -> tuple[str, ...]:
    """Return the names that "a, b" lists."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _options(
    arguments: list[str] | None = None, compile_mode: str | None = None, **given: Any
) -> WorkloadOptions:
    from gpuscope.program.models.settings import WorkloadOptions

    return WorkloadOptions(arguments=tuple(arguments or ()), compile=compile_mode, **given)


def _outputs(lang: str | None, **given: Any) -> Outputs:
    from gpuscope.cli.results import Outputs
    from gpuscope.views.i18n import choose_language

    return Outputs(lang=choose_language(lang), **given)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "task": (Task, None),
    "batch": (Batch, None),
    "seq": (Seq, None),
    "dtype": (Dtype, None),
    "attention": (Attention, None),
    "optimizer": (Optimizer, None),
    "compile_mode": (CompileMode, None),
    "checkpointing": (Checkpointing, False),
    "from_host": (FromHost, False),
    "image": (Image, None),
    "context": (Context, None),
    "layers": (Layers, None),
}
_OF_SCRIPTS: dict[str, tuple[Any, Any]] = {
    "arguments": (ScriptArguments, None),
    "module": (AsModule, False),
    "allow_writes": (AllowWrites, False),
    "step": (StepOf, None),
}
_OUTPUTS: dict[str, tuple[Any, Any]] = {
    "as_json": (AsJson, False),
    "output": (Output, None),
    "report": (Report, None),
    "trace": (Trace, None),
    "figures": (Figures, None),
    "lang": (Lang, None),
    "quiet": (Quiet, False),
}

Options = Annotated["WorkloadOptions", Group(_OPTIONS, _options)]
"""What a workload is to be like: `WorkloadOptions`."""
OptionsOrScript = Annotated["WorkloadOptions", Group(_OF_SCRIPTS | _OPTIONS, _options)]
"""The same where the workload may be a script, with its own arguments."""
Where = Annotated["Outputs", Group(_OUTPUTS, _outputs)]
"""Where a run goes: `Outputs`."""

ADAPTERS: dict[str, tuple[Any, Any]] = {
    "rank": (Annotated[int, typer.Option(help=Text("Of the adapters."))], 16),
    "targets": (
        Annotated[
            str,
            typer.Option(help=Text("What gets an adapter: all-linear, attention, qv, or q,k,up.")),
        ],
        "all-linear",
    ),
}

LENGTHS: dict[str, tuple[Any, Any]] = {
    "lengths": (
        Annotated[
            str | None,
            typer.Option(
                metavar="TOKENS|FILE",
                help=Text(
                    "Lengths of examples: 512, 256..2048, lognormal:400,0.8, or a file of numbers."
                ),
            ),
        ],
        None,
    ),
    "packing": (
        Annotated[
            str | None,
            typer.Option(
                help=Text("How they lie in rows: padded, flash, mask; in plan and fit several.")
            ),
        ],
        None,
    ),
}

_MEMBERS: dict[str, tuple[Any, Any]] = {
    "method": (
        Annotated[
            str | None, typer.Option(help=Text("Fine-tune a built-in decoder: full, lora, qlora."))
        ],
        None,
    ),
    **ADAPTERS,
    **LENGTHS,
}

Tuned = Annotated[dict[str, Any], Group(_MEMBERS, dict)]
"""How a built-in decoder is fine-tuned, and on examples of which lengths."""
