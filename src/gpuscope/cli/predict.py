"""`gpuscope predict`: a step's time, memory and story, without the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from gpuscope.cli import parallel_arguments as split
from gpuscope.cli import workload_arguments as given
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `predict` command to the application."""
    short = Text("Predict a step: its time, memory, energy; what to change.")
    app.command("predict", short_help=short)(grouped(predict_command))


def predict_command(
    target: given.WorkloadArgument,
    *,
    on: Annotated[
        str | None,
        typer.Option(
            help=Text("Device, or several: h200,mi300x. Clusters: 8xh200. This machine: this."),
            show_default="h200",
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help=Text(
                "Constants measured on a machine (gpuscope bench --save); a GPU is not needed."
            ),
        ),
    ] = None,
    options: given.OptionsOrScript,
    parallel: split.Parallel,
    tuned: given.Tuned,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help=Text(
                "What if: memory_bandwidth=8TB/s, sm_count=160, ...; of an ONNX graph also its "
                "dynamic axes: batch=8. May be repeated."
            ),
        ),
    ] = None,
    engine: given.GraphEngine = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=LOW..HIGH",
            help=Text("Vary a device figure, batch, seq or devices: memory_bandwidth=2..10TB/s."),
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="OPTION[=VALUES]",
            help=Text(
                "Also predict other values for the report: batch, seq=512,1024, dtype. "
                "May be repeated."
            ),
        ),
    ] = None,
    must_fit: Annotated[
        bool, typer.Option("--must-fit", help=Text("Exit with 3 if the memory is too small."))
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help=Text("Refuse operators that would be estimated."))
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help=Text("Keep the charts that a script draws (matplotlib) there.")
        ),
    ] = None,
    no_cache: given.NoCache = False,
    outputs: given.Where,
) -> None:
    """Predict a step of a workload: time, memory, energy, and what to change first."""
    from gpuscope.capturing import keeping
    from gpuscope.cli.prediction import Request, run_request, targets_of
    from gpuscope.cli.tuning_arguments import fine_tuned
    from gpuscope.hardware.names import is_processor

    targets = targets_of(on, calibration)
    options = fine_tuned(target, options, tuned)
    own, axes = tuple(settings or ()), given.NO_AXES
    if target.lower().endswith(".onnx"):
        from gpuscope.cli.onnx_settings import split_settings

        own, axes = split_settings(own)
    request = Request(
        workload=target,
        targets=targets,
        options=replace(options, parallel=parallel, keep=keep, axes=axes, engine=engine),
        settings=own,
        sweep=sweep,
        strict=strict,
        must_fit=must_fit,
        calibration=calibration,
        what_if=tuple(what_if or ()),
    )
    with keeping(not no_cache):
        if any(map(is_processor, targets)):
            from gpuscope.cli.on_processors import run_on_processors

            run_on_processors(request, outputs)
        else:
            run_request(request, outputs)
