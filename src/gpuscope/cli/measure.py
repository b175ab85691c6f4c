"""`gpuscope measure`: what `predict` says, really run on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.results import Outputs
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.run import Run

# What does the work is imported when the command runs, so that --help stays fast.

INTERRUPTED = 130
"""Exit code where the user stopped it, whether or not something had been measured."""


def register(app: typer.Typer) -> None:
    """Add the `measure` command to the application."""
    short = Text("Really run a step: its time, memory, energy.")
    app.command("measure", short_help=short)(grouped(measure_command))


def measure_command(
    target: given.WorkloadArgument,
    device: Annotated[
        str | None,
        typer.Option(help=Text("cuda, cuda:1, cpu, ...; this machine's GPU by default.")),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help=Text("About how long steps are timed without the profiler."))
    ] = 3.0,
    confidence: Annotated[
        float, typer.Option(help=Text("Of the interval of the median step."))
    ] = 0.95,
    profile: Annotated[
        bool, typer.Option("--profile/--no-profile", help=Text("Also record a timeline."))
    ] = True,
    with_prediction: Annotated[
        bool, typer.Option("--predict", help=Text("Also predict it on this machine, and compare."))
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="AXIS=SIZE",
            help=Text("Size of an ONNX graph's dynamic axis: batch=8. May be repeated."),
        ),
    ] = None,
    *,
    options: given.Options,
    outputs: given.Where,
) -> None:
    """Run a step of a workload on this machine: time, memory, energy, and where they go."""
    from gpuscope.cli.onnx_settings import axes_in
    from gpuscope.cli.prediction import check_options
    from gpuscope.cli.results import check_outputs

    check_outputs(outputs)
    check_options(options)
    options = replace(options, axes=axes_in(settings or ()))
    run = _measure(target, options, device, seconds, confidence, profile, outputs)
    _tell(run, target, options, outputs, with_prediction)
    if run.measurement is not None and run.measurement.interrupted:
        raise typer.Exit(INTERRUPTED)


def _measure(
    target: str,
    options: WorkloadOptions,
    device: str | None,
    seconds: float,
    confidence: float,
    profile: bool,
    outputs: Outputs,
) -> Run:
    from gpuscope.cli.progress import progress
    from gpuscope.document.text import render
    from gpuscope.measurement.run import measure

    with progress(outputs.quiet) as say:
        return measure(
            target,
            options=options,
            on=device,
            seconds=seconds,
            confidence=confidence,
            profile=profile,
            on_progress=lambda text: say(render(text, outputs.lang)),
        )


def _tell(
    run: Run, target: str, options: WorkloadOptions, outputs: Outputs, with_prediction: bool
) -> None:
    from gpuscope.cli.results import Result, show_result, write_result

    predicted = _prediction(run, target, options, outputs) if with_prediction else None
    both = Result((run,) if predicted is None else (predicted, run))
    write_result(both, outputs)
    show_result(Result((run,)) if not outputs.as_json else both, outputs)
    if predicted is not None and not outputs.as_json:
        from gpuscope.analysis.compare import compare
        from gpuscope.views.compare import difference, side_by_side
        from gpuscope.views.terminal import make_console

        console = make_console()
        console.print(side_by_side([predicted, run], outputs.lang))
        console.print(difference(compare(predicted, run), outputs.lang))


def _prediction(run: Run, target: str, options: WorkloadOptions, outputs: Outputs) -> Run | None:
    """The same workload predicted on the device that it ran on; None if it is not known."""
    from gpuscope import api
    from gpuscope.cli.progress import note, progress
    from gpuscope.views.i18n import tr

    if not run.device_id:
        text = tr(
            "No prediction: {device} is not in the catalogue.", outputs.lang, device=run.target
        )
        note(text, outputs.quiet)
        return None
    with progress(outputs.quiet) as say:
        say(tr("Predicting …", outputs.lang))
        return api.predict(target, _this_machine(run), options=options)


def _this_machine(run: Run) -> str:
    """What to predict on: this machine with its own calibration where it has one."""
    from gpuscope.errors import GpuscopeError
    from gpuscope.hardware.own import this_target

    try:
        own = this_target("this")[0]
    except GpuscopeError:  # it was never benched: the catalogue's constants
        return run.device_id
    return "this" if own == run.device_id else run.device_id
