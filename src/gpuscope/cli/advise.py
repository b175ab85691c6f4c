"""`gpuscope advise`: what to change, how much it gains, and what not to do; nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli import explanations as shown
from gpuscope.cli import parallel_arguments as split
from gpuscope.cli import workload_arguments as given

# What does the work is imported when the command runs, so that --help stays fast.

if TYPE_CHECKING:
    from gpuscope.explain.types import Explanation
    from gpuscope.program.models.settings import WorkloadOptions


def register(app: typer.Typer) -> None:
    """Add the `advise` command to the application."""
    short = "What to change, how much it gains, what would hurt; predicted."
    app.command("advise", short_help=short)(advise_command)


def advise_command(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD|TRACE",
            help="A built-in model (see: gpuscope models), file.py:function, script.py, a Hugging "
            "Face config.json; or a recording: a trace, a folder of ranks, a saved run.",
        ),
    ] = None,
    arguments: given.ScriptArguments = None,
    module: given.AsModule = False,
    on: Annotated[
        str | None, typer.Option(help="Device or cluster: h200, 8xh200, this.",
                                 show_default="h200"),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="What better means: time, memory, energy or cost.")
    ] = "time",
    allow: Annotated[
        str | None,
        typer.Option(metavar="NUMERICS",
                     help="Also combine what changes the results: fp8,int8,int4,recipe."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Consider only these changes.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Leave these changes out.")
    ] = None,
    batch_advice: Annotated[
        bool, typer.Option("--batch-advice", help="Also find the largest and the best batch.")
    ] = False,
    save: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep all forecasts for gpuscope optimize --advice."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List all changes and stop.")] = False,
    calibration: Annotated[
        str | None,
        typer.Option(metavar="FILE|FOLDER", help="Constants measured (gpuscope bench --save)."),
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
    allow_writes: given.AllowWrites = False,
    as_json: shown.AsJson = False,
    output: shown.Output = None,
    report: shown.Report = None,
    figures: shown.Figures = None,
    lang: shown.Lang = None,
    quiet: shown.Quiet = False,
) -> None:  # fmt: skip
    """Predict every change that fits, alone and in the best combination; name what would hurt.

    Nothing is run and no GPU is needed. For a recording, whose code is not at hand, gains are
    bounds that its timeline gives.
    """
    from gpuscope.cli.advising import Request, advice_for, list_changes
    from gpuscope.program.models.settings import WorkloadOptions

    if listed:
        shown.show(list_changes, shown.Shown(as_json, output, report, figures, lang, quiet))
        return
    if target is None:
        from gpuscope.errors import InvalidValueError

        raise InvalidValueError(
            "No workload is named.", "", "Type for example: gpuscope advise gpt2 --task train"
        )
    options: WorkloadOptions = WorkloadOptions(
        task=task, batch=batch, seq=seq, dtype=dtype, attention=attention, optimizer=optimizer,
        compile=compile_mode, checkpointing=checkpointing, image=image, context=context,
        layers=layers,
        parallel=split.parallel_options(
            dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, fsdp=fsdp, schedule=None, virtual=None,
            microbatch=None, global_batch=None, recompute=None,
        ),
        arguments=tuple(arguments or ()), allow_writes=allow_writes, module=module,
    )  # fmt: skip
    request = Request(
        target, on, options, objective, _names(allow), _names(only), _names(without),
        batch_advice, calibration, save,
    )  # fmt: skip

    def make() -> Explanation:
        return advice_for(request, quiet or as_json, lang)

    shown.show(make, shown.Shown(as_json, output, report, figures, lang, quiet))


def _names(text: str | None) -> tuple[str, ...]:
    """The names that "a,b" lists."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
