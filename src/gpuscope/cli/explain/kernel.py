"""`gpuscope explain kernel`: what the name of a device kernel says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli.explanations import On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation


def register(topics: typer.Typer) -> None:
    """Add the `kernel` topic."""
    topics.command("kernel")(grouped(kernel_command))


def kernel_command(
    name: Annotated[
        str, typer.Argument(help=Text("A kernel's name, as a trace has it; quote it in the shell."))
    ],
    trace: Annotated[
        str | None,
        typer.Option(
            help=Text("A recording: how often it ran there. NAME may be a part of a name.")
        ),
    ] = None,
    on: On = "h200",
    *,
    shown: Where,
) -> None:
    """Kernel: what its name means: library, tile, stages, layout, dtypes."""
    from gpuscope.explanation.kernel import kernel

    def make() -> Explanation:
        if trace is None:
            return kernel(name, on=on)
        from gpuscope.loading import load

        return kernel(name, on=on, trace=load(trace))

    show(make, shown)
