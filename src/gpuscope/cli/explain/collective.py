"""`gpuscope explain collective`: algorithm, protocol, steps, latency and bandwidth."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import Dtype, On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

Operation = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION",
        help=Text("all_reduce, all_gather, reduce_scatter, all_to_all, broadcast."),
    ),
]
Size = Annotated[
    str, typer.Argument(metavar="SIZE", help=Text("The whole message: 64MB, 1GiB, 4096B, ..."))
]


def register(topics: typer.Typer) -> None:
    """Add `explain collective`."""
    topics.command("collective")(grouped(_collective))


def _collective(
    operation: Operation, size: Size, on: On = "8xh200", dtype: Dtype = "bf16", *, shown: Where
) -> None:
    """A collective: its algorithm by size, the steps on the links, latency and bandwidth."""
    from gpuscope.explanation.collective import collective

    show(lambda: collective(operation, size, on=on, dtype=dtype), shown)
