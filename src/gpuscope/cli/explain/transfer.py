"""`gpuscope explain transfer`: a copy between host and device."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import Dtype, On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

Amount = Annotated[
    str, typer.Argument(metavar="SIZE", help=Text("What is copied: 1GB, 64MiB, 4096B."))
]
Pinned = Annotated[
    bool | None,
    typer.Option(
        "--pinned/--pageable", help=Text("Which host memory to tell of first; both by default.")
    ),
]
Direction = Annotated[str, typer.Option(help=Text("h2d (host to device) or d2h (device to host)."))]


def register(topics: typer.Typer) -> None:
    """Add `explain transfer`."""
    topics.command("transfer")(grouped(_transfer))


def _transfer(
    amount: Amount,
    on: On = "h200",
    pinned: Pinned = None,
    direction: Direction = "h2d",
    dtype: Dtype = "bf16",
    *,
    shown: Where,
) -> None:
    """A copy between host and device: pageable, pinned, overlapped with compute."""
    from gpuscope.explanation.transfer import transfer

    show(lambda: transfer(amount, on=on, pinned=pinned, direction=direction, dtype=dtype), shown)
