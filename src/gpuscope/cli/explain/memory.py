"""`gpuscope explain memory`: what a step holds, and how much more would fit."""

from __future__ import annotations

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.cli.explanations import On, Where, show
from gpuscope.cli.groups import grouped


def register(topics: typer.Typer) -> None:
    """Add `explain memory`."""
    topics.command("memory")(grouped(_memory))


def _memory(
    target: given.WorkloadArgument, on: On = "h200", *, options: given.Options, shown: Where
) -> None:
    """A step's memory: the peak and its holders, what would still fit, what to change first."""
    from gpuscope.cli.progress import progress
    from gpuscope.document.blocks import Explanation
    from gpuscope.explanation.memory import memory
    from gpuscope.program.workload import check_name
    from gpuscope.views.i18n import choose_language, tr

    check_name(target)

    def make() -> Explanation:
        with progress(shown.quiet) as say:
            say(tr("Capturing {workload} …", choose_language(shown.lang), workload=target))
            return memory(target, on=on, options=options)

    show(make, shown)
