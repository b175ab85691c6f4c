"""`gpuscope mcp`: the verbs as tools for a coding assistant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.document.text import Text


def register(app: typer.Typer) -> None:
    """Add the `mcp` command to the application."""
    short = Text("Tools for a coding assistant: Model Context Protocol.")
    app.command("mcp", short_help=short)(mcp_command)


def mcp_command(
    folder: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help=Text("The project, from which workloads are named.")),
    ] = Path(),
    method: Annotated[
        bool, typer.Option("--method", help=Text("Print the method that the tools are for."))
    ] = False,
    lang: given.Lang = None,
) -> None:
    """Serve predict, advise, compare and the others as tools on standard input and output, until
    it ends."""
    from gpuscope.views.i18n import choose_language

    choose_language(lang)
    if method:
        from importlib.resources import files

        typer.echo((files("gpuscope.mcp") / "method.md").read_text("utf-8"), nl=False)
        return
    from gpuscope.mcp.server import run_server
    from gpuscope.mcp.tools import folder as work_in

    work_in(str(folder))
    run_server()
