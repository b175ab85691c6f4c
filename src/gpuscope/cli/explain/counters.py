"""`gpuscope explain counters`: a report of Nsight Compute, beside a prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli.explanations import Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation


def register(topics: typer.Typer) -> None:
    """Add the `counters` topic."""
    topics.command("counters")(grouped(counters_command))


def counters_command(
    file: Annotated[
        Path, typer.Argument(help=Text("What ncu --csv printed (details or raw), or an .ncu-rep."))
    ],
    kernel: Annotated[
        str | None, typer.Option(help=Text("Only kernels whose name holds this."))
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(help=Text("A saved prediction, or a recording, of the same program.")),
    ] = None,
    *,
    shown: Where,
) -> None:
    """Counters: what Nsight Compute counted of kernels, beside what is predicted of them."""
    from gpuscope.explanation.counters import counters

    def make() -> Explanation:
        if beside is None:
            return counters(file, kernel=kernel)
        from gpuscope.loading import load

        return counters(file, kernel=kernel, run=load(beside))

    show(make, shown)
