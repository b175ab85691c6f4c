"""`gpuscope claims`: what articles say about GPUs, and what is true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuscope.document.text import Text

# The catalogue and the checks are imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `claims` command to the application."""
    app.command("claims", short_help=Text("What articles say about GPUs, and what is true."))(
        claims_command
    )


def claims_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(help=Text("Words to search for, or ids; one id shows that claim in depth.")),
    ] = None,
    verdict: Annotated[
        str | None,
        typer.Option(help=Text("Only these: wrong, imprecise, depends, right or 'cannot say'.")),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help=Text("Only this topic, such as memory."))
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help=Text("Print all claims."))] = False,
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print the JSON document."))] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Save the JSON."))
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write a page with all claims: one HTML file.")),
    ] = None,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """Check what articles say about GPUs: each verdict is computed, the true figure told.

    Without words or filters: how many of which topic are right, wrong, imprecise.
    """
    from gpuscope.atomic import check_writable
    from gpuscope.cli.progress import note
    from gpuscope.learn.claims.document import claims_document
    from gpuscope.learn.claims.registry import all_claims, judged, search
    from gpuscope.views.i18n import choose_language, tr

    lang = choose_language(lang)
    for path in (output, report):
        if path is not None:
            check_writable(path)
    asked = words or []
    ids = {claim.id.lower() for claim in all_claims()}
    named = bool(asked) and all(word.lower() in ids for word in asked)
    one = named and len(asked) == 1
    found = tuple(map(judged, asked)) if named else search(asked, verdict, topic)
    if output is not None:
        from gpuscope.atomic import write_document

        write_document(claims_document(found), output)
        note(tr("Wrote {path}", lang, path=output), quiet=False)
    if report is not None:
        from gpuscope.views.html import write_claims

        write_claims(report, lang)
        note(tr("Wrote {path}", lang, path=report), quiet=False)
    if as_json:
        if output is None:
            from gpuscope.document.plain import dumps

            typer.echo(dumps(claims_document(found)))
        return
    from gpuscope.views.claims import claim_card, claim_overview, claim_table
    from gpuscope.views.terminal import make_console

    chosen = bool(asked or verdict or topic or everything)
    show = claim_table if chosen else claim_overview
    make_console().print(claim_card(found[0], lang) if one else show(found, lang))
