"""`gpuscope explain memory`: what a step holds, and how much more would fit."""

from __future__ import annotations

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.cli.explanations import Figures, On, Shown, show


def register(topics: typer.Typer) -> None:
    """Add `explain memory`."""
    topics.command("memory")(_memory)


def _memory(
    target: given.WorkloadArgument, on: On = "h200", task: given.Task = None,
    batch: given.Batch = None, seq: given.Seq = None, dtype: given.Dtype = None,
    attention: given.Attention = None, optimizer: given.Optimizer = None,
    compile_mode: given.CompileMode = None, checkpointing: given.Checkpointing = False,
    image: given.Image = None, context: given.Context = None, layers: given.Layers = None,
    as_json: given.AsJson = False, output: given.Output = None, report: given.Report = None,
    figures: Figures = None, lang: given.Lang = None, quiet: given.Quiet = False,
) -> None:  # fmt: skip
    """A step's memory: the peak and its holders, what would still fit, what to change first."""
    from gpuscope.cli.progress import progress
    from gpuscope.explain.memory import memory
    from gpuscope.explain.types import Explanation
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.workload import check_name
    from gpuscope.views.i18n import choose_language, tr

    options = WorkloadOptions(
        task=task, batch=batch, seq=seq, dtype=dtype, attention=attention, optimizer=optimizer,
        compile=compile_mode, checkpointing=checkpointing, image=image, context=context,
        layers=layers,
    )  # fmt: skip
    check_name(target)

    def make() -> Explanation:
        with progress(quiet) as say:
            say(tr("Capturing {workload} …", choose_language(lang), workload=target))
            return memory(target, on=on, options=options)

    show(make, Shown(as_json, output, report, figures, lang, quiet))
