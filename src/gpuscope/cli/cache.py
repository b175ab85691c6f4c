"""`gpuscope cache`: the captured programs and figures that are kept between commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.kept import KeptProgram


def register(app: typer.Typer) -> None:
    """Add the `cache` command to the application."""
    app.command("cache")(cache_command)


def cache_command(
    clear: Annotated[bool, typer.Option("--clear", help=Text("Remove everything kept."))] = False,
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print JSON."))] = False,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """List the captured programs that are kept, or remove them."""
    from gpuscope.kept import files, programs
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    removed = len(files.clear()) if clear else None
    found = programs()
    if as_json:
        from gpuscope.document.plain import dumps

        typer.echo(dumps(_document(found, removed), indent=2))
        return
    if removed is not None:
        typer.echo(Text("{count} kept programs removed.", count=removed).to(language))
    typer.echo(_story(found).to(language))
    for program in found:
        typer.echo(f"  {program.workload}  {program.file.nbytes:,} B")


def _document(found: list[KeptProgram], removed: int | None) -> dict[str, object]:
    from gpuscope.kept import files

    place = files.folder()
    return {
        "schema": "gpuscope.cache",
        "version": 1,
        "folder": None if place is None else str(place),
        "limit_bytes": files.LIMIT_BYTES,
        "removed": removed,
        "programs": [
            {
                "workload": each.workload,
                "bytes": each.file.nbytes,
                "used_s": each.file.used_s,
                "file": each.file.path.name,
            }
            for each in found
        ],
    }


def _story(found: list[KeptProgram]) -> Text:
    from gpuscope.document.quantities import Bytes
    from gpuscope.kept import CACHE, files

    place = files.folder()
    if place is None:
        return Text(
            "Captured programs are not kept: {variable} says so in the environment.", variable=CACHE
        )
    return Text(
        "{count} captured programs and figures of them are kept in {folder}: "
        "{size} of at most {limit}.",
        count=len(found),
        folder=place,
        size=Bytes(sum(each.file.nbytes for each in found)),
        limit=Bytes(files.LIMIT_BYTES),
    )
