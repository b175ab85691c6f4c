"""`gpuscope explain`: one file a topic, each adding its own command."""

from __future__ import annotations

import importlib
import pkgutil

import typer

from gpuscope.cli.speech import SpokenGroup
from gpuscope.document.text import Text


def register(app: typer.Typer) -> None:
    """Add the `explain` commands to the application: `register(topics)` of each file here."""
    short = Text("One thing, deeply: a product, a collective, an error.")
    topics = typer.Typer(
        cls=SpokenGroup,
        help=short,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}").register(topics)
    app.add_typer(topics, name="explain", short_help=short)
