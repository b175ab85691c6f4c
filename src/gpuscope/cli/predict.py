"""`gpuscope predict`: a step's time, memory and story, without the device."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli import parallel_arguments as split
from gpuscope.cli import workload_arguments as given

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `predict` command to the application."""
    short = "Predict a step: its time, memory, energy; what to change."
    app.command("predict", short_help=short)(predict_command)


def predict_command(
    target: given.WorkloadArgument,
    arguments: given.ScriptArguments = None,
    module: given.AsModule = False,
    on: Annotated[
        str | None,
        typer.Option(
            help="Device, or several: h200,mi300x. Clusters: 8xh200. This machine: this.",
            show_default="h200",
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Constants measured on a machine (gpuscope bench --save); a GPU is not needed.",
        ),
    ] = None,
    task: given.Task = None,
    batch: given.Batch = None,
    seq: given.Seq = None,
    dtype: given.Dtype = None,
    attention: given.Attention = None,
    optimizer: given.Optimizer = None,
    compile_mode: given.CompileMode = None,
    checkpointing: given.Checkpointing = False,
    image: given.Image = None,
    context: given.Context = None,
    layers: given.Layers = None,
    dp: split.DP = None,
    tp: split.TP = None,
    pp: split.PP = None,
    cp: split.CP = None,
    ep: split.EP = None,
    fsdp: split.Fsdp = None,
    schedule: split.Schedule = None,
    virtual: split.Virtual = None,
    microbatch: split.Microbatch = None,
    global_batch: split.GlobalBatch = None,
    recompute: split.Recompute = None,
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
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if", metavar="OPTION[=VALUES]",
            help="Also predict other values for the report: batch, seq=512,1024, dtype. "
            "May be repeated.",
        ),
    ] = None,
    as_json: given.AsJson = False,
    output: given.Output = None,
    report: given.Report = None,
    trace: given.Trace = None,
    figures: given.Figures = None,
    must_fit: Annotated[
        bool, typer.Option("--must-fit", help="Exit with 3 if the memory is too small.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse operators that would be estimated.")
    ] = False,
    allow_writes: given.AllowWrites = False,
    lang: given.Lang = None,
    quiet: given.Quiet = False,
) -> None:  # fmt: skip
    """Predict a step of a workload: time, memory, energy, and what to change first."""
    from gpuscope.cli.prediction import Request, run_request, targets_of
    from gpuscope.cli.results import Outputs
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.views.i18n import choose_language

    request = Request(
        workload=target,
        targets=targets_of(on, calibration),
        options=WorkloadOptions(
            task=task, batch=batch, seq=seq, dtype=dtype, attention=attention,
            optimizer=optimizer, compile=compile_mode, checkpointing=checkpointing, image=image,
            context=context, layers=layers,
            parallel=split.parallel_options(
                dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, fsdp=fsdp, schedule=schedule, virtual=virtual,
                microbatch=microbatch, global_batch=global_batch, recompute=recompute,
            ),
            arguments=tuple(arguments or ()), allow_writes=allow_writes, module=module,
        ),
        settings=tuple(settings or ()),
        sweep=sweep,
        strict=strict,
        must_fit=must_fit,
        calibration=calibration,
        what_if=tuple(what_if or ()),
    )  # fmt: skip
    outputs = Outputs(
        as_json=as_json, output=output, report=report, trace=trace, figures=figures,
        quiet=quiet, lang=choose_language(lang),
    )  # fmt: skip
    run_request(request, outputs)
