"""`gpuscope load`: how a running server serves, measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.groups import grouped
from gpuscope.cli.load_arguments import HowOptions, LoadOptions
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuscope.serving.result import Serving
    from gpuscope.serving.slo import Limit

VOID = 1
"""Exit code of a run in which the client was the limit."""


def register(app: typer.Typer) -> None:
    """Add the `load` command to the application."""
    short = Text("Load a running server, and measure how it serves.")
    app.command("load", short_help=short)(grouped(load_command))


def load_command(
    url: Annotated[str, typer.Argument(help=Text("Of an OpenAI-compatible server."))],
    *,
    load: LoadOptions,
    how: HowOptions,
    slo: Annotated[
        str | None, typer.Option(help=Text('Limits that users are promised: "ttft<500ms".'))
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Save the run, for compare."))
    ] = None,
    save: Annotated[Path | None, typer.Option(hidden=True)] = None,  # its former name
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print the JSON document."))] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=Text("No progress."))] = False,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """Load a running server, and measure how it serves, request by request."""
    from gpuscope.atomic import check_writable
    from gpuscope.cli.progress import progress
    from gpuscope.program.lengths import answer_and_file
    from gpuscope.serving.client.load_test import load_test
    from gpuscope.serving.slo import parse_slo
    from gpuscope.views.i18n import choose_language, tr

    language = choose_language(lang)
    answer, output = answer_and_file(load["answer"], output)
    output = output or save
    if output is not None:
        check_writable(output)
    limits = parse_slo(slo) if slo else ()
    with progress(quiet) as say:
        found = load_test(
            url,
            output=answer,
            on_progress=lambda done: say(tr("{count} requests done", language, count=done)),
            **_asked(load, how),
        )
    _show(found, limits, output, as_json, language, quiet)
    if "void" in found.client:
        raise typer.Exit(VOID)


def _asked(load: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `load_test`, without the answers' length."""
    from gpuscope.serving.client.load_test import parse_time

    asked = {**load, **how}
    del asked["answer"]
    lasts, timeout = asked.pop("lasts"), asked.pop("timeout")
    for name in ("tokenizer", "engine_log"):
        asked[name] = str(asked[name]) if asked[name] else None
    return asked | {
        "count": asked.pop("requests"),
        "for_s": parse_time(lasts) if lasts else None,
        "timeout_s": parse_time(timeout),
    }


def _show(
    found: Serving,
    limits: Sequence[Limit],
    save: Path | None,
    as_json: bool,
    lang: str,
    quiet: bool,
) -> None:
    from gpuscope.cli.progress import note
    from gpuscope.views.i18n import tr

    if save is not None:
        from gpuscope.serving.document import save_serving

        save_serving(found, save)
        note(tr("Wrote {path}", lang, path=save), quiet)
    if as_json:
        from gpuscope.document.plain import dumps
        from gpuscope.serving.document import serving_document

        typer.echo(dumps(serving_document(found)))
        return
    from gpuscope.views.load import load_blocks
    from gpuscope.views.terminal import make_console
    from gpuscope.views.terminal.blocks.render import render_block

    console = make_console()
    for block in load_blocks(found, limits):
        console.print(render_block(block, lang))
