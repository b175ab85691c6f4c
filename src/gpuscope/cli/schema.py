"""`gpuscope schema`: the JSON Schemas of what `--json` prints."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.document.text import Text


def register(app: typer.Typer) -> None:
    """Add the `schema` command to the application."""
    app.command("schema")(schema_command)


def schema_command(
    name: Annotated[
        str | None,
        typer.Argument(help=Text("A document: run, sweep, serving, ...; none: the list.")),
    ] = None,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """Print the JSON Schema of a document that --json prints."""
    from gpuscope.document.plain import dumps
    from gpuscope.views.i18n import choose_language
    from gpuscope.views.schemas import DOCUMENTS, json_schema

    choose_language(lang)  # errors are told in it; what is printed is the same in all
    if name is None:
        typer.echo("\n".join(DOCUMENTS))
        return
    typer.echo(dumps(json_schema(name), indent=2))
