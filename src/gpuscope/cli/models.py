"""`gpuscope models`: the built-in workloads."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.document.text import Text


def register(app: typer.Typer) -> None:
    """Add the `models` command to the application."""
    app.command("models")(models_command)


def models_command(
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print JSON."))] = False,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """List the models that can be named in place of your own code."""
    from gpuscope.program.models import model_names
    from gpuscope.views.i18n import choose_language
    from gpuscope.views.models import model_table, models_document

    language = choose_language(lang)
    if as_json:
        from gpuscope.document.plain import dumps

        typer.echo(dumps(models_document(model_names())))
        return
    from gpuscope.views.terminal import make_console

    make_console().print(model_table(model_names(), language))
