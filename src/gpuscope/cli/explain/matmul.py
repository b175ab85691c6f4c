"""`gpuscope explain matmul`: one matrix product, from tiles to milliseconds."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import Dtype, On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text


def register(topics: typer.Typer) -> None:
    """Add the `matmul` topic."""
    topics.command("matmul")(grouped(matmul_command))


def matmul_command(
    m: Annotated[int, typer.Argument(metavar="M", help=Text("Rows of A and of the result."))],
    n: Annotated[int, typer.Argument(metavar="N", help=Text("Columns of B and of the result."))],
    k: Annotated[int, typer.Argument(metavar="K", help=Text("Columns of A, rows of B."))],
    dtype: Dtype = "bf16",
    on: On = "h200",
    layout: Annotated[
        str,
        typer.Option(help=Text("Storage of A and B: n row-major, t transposed; nt is a Linear's.")),
    ] = "nt",
    batch: Annotated[int, typer.Option(help=Text("Number of products (bmm)."))] = 1,
    hot: Annotated[
        bool,
        typer.Option("--hot/--cold", help=Text("Whether A and B are in the L2 cache already.")),
    ] = False,
    *,
    shown: Where,
) -> None:
    """A matrix product: tiles, waves, traffic, the limiter, and which sizes are cheaper."""
    from gpuscope.explanation.matmul import matmul

    show(lambda: matmul(m, n, k, dtype=dtype, on=on, layout=layout, batch=batch, hot=hot), shown)
