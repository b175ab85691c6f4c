"""`gpuscope explain collective`: algorithm, protocol, steps, latency and bandwidth."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import (
    AsJson,
    Dtype,
    Figures,
    Lang,
    On,
    Output,
    Quiet,
    Report,
    Shown,
    show,
)

Operation = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION", help="all_reduce, all_gather, reduce_scatter, all_to_all, broadcast."
    ),
]
Size = Annotated[
    str, typer.Argument(metavar="SIZE", help="The whole message: 64MB, 1GiB, 4096B, ...")
]


def register(topics: typer.Typer) -> None:
    """Add `explain collective`."""
    topics.command("collective")(_collective)


def _collective(
    operation: Operation, size: Size, on: On = "8xh200", dtype: Dtype = "bf16",
    as_json: AsJson = False, output: Output = None, report: Report = None,
    figures: Figures = None, lang: Lang = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """A collective: its algorithm by size, the steps on the links, latency and bandwidth."""
    from gpuscope.explain.collective import collective

    show(
        lambda: collective(operation, size, on=on, dtype=dtype),
        Shown(as_json, output, report, figures, lang, quiet),
    )
