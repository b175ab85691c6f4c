"""`gpuscope explain occupancy`: how a launch fills a multiprocessor."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text


def register(topics: typer.Typer) -> None:
    """Add the `occupancy` topic."""
    topics.command("occupancy")(grouped(occupancy_command))


def occupancy_command(
    threads: Annotated[int, typer.Option(help=Text("Threads of a block."))] = 256,
    registers: Annotated[int, typer.Option(help=Text("Registers of a thread (ptxas -v)."))] = 32,
    shared: Annotated[
        str, typer.Option(help=Text("Shared memory of a block: 48KB (x 1024 bytes), 49152."))
    ] = "0",
    on: On = "h200",
    *,
    shown: Where,
) -> None:
    """Occupancy: blocks on a multiprocessor, what limits them, how much is needed."""
    from gpuscope.explanation.occupancy import occupancy

    show(lambda: occupancy(threads, registers, shared, on=on), shown)
