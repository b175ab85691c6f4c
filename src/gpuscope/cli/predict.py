"""`gpuscope predict`: a step's time, memory and story, without the device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `predict` command to the application."""
    app.command("predict")(predict_command)


def predict_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="A built-in model (see: gpuscope models), file.py:function, or a Hugging Face "
            "config.json.",
        ),
    ],
    on: Annotated[
        str, typer.Option(help="Device, or several: h200,mi300x. Clusters: 8xh200.")
    ] = "h200",
    task: Annotated[str | None, typer.Option(help="train, prefill, decode or inference.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences, images or samples a step.")] = None,
    seq: Annotated[int | None, typer.Option(help="Tokens of one sequence.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, tf32, bfloat16, float16 or fp8.")
    ] = None,
    attention: Annotated[str | None, typer.Option(help="sdpa, flash or eager.")] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="adamw, adamw-fused, sgd, adafactor, ...")
    ] = None,
    compile_mode: Annotated[
        str | None,
        typer.Option("--compile", metavar="MODE", help="default, reduce-overhead, max-autotune."),
    ] = None,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Recompute activations in the backward pass.")
    ] = False,
    image: Annotated[int | None, typer.Option(help="Pixels of an image's side.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens in the key-value cache before a decode step.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Number of blocks of the model.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE",
            help="What if: memory_bandwidth=8TB/s, sm_count=160, ... May be repeated.",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=LOW..HIGH",
            help="Vary a device figure, batch, seq or devices: memory_bandwidth=2..10TB/s.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the JSON document instead of the story.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the JSON document.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML report.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a trace for Perfetto (.json or .json.gz)."),
    ] = None,
    must_fit: Annotated[
        bool, typer.Option("--must-fit", help="Exit with 3 if the memory is too small.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse operators that would be estimated.")
    ] = False,
    lang: Annotated[str | None, typer.Option(help="Language: en or zh.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the headline; no progress.")
    ] = False,
) -> None:  # fmt: skip
    """Predict a step of a workload: time, memory, energy, and what to change first."""
    from gpuscope.cli.prediction import Outputs, Request, run_request
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.views.i18n import choose_language

    request = Request(
        workload=target,
        targets=tuple(name.strip() for name in on.split(",") if name.strip()),
        options=WorkloadOptions(
            task=task, batch=batch, seq=seq, dtype=dtype, attention=attention,
            optimizer=optimizer, compile=compile_mode, checkpointing=checkpointing, image=image,
            context=context, layers=layers,
        ),
        settings=tuple(settings or ()),
        sweep=sweep,
        strict=strict,
        must_fit=must_fit,
    )  # fmt: skip
    outputs = Outputs(
        as_json=as_json, output=output, report=report, trace=trace, quiet=quiet,
        lang=choose_language(lang),
    )  # fmt: skip
    run_request(request, outputs)
